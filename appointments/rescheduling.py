"""Moving an appointment to another slot of the same owner: no way round the agent's consent."""

import datetime
from uuid import UUID

from django.db import transaction

from appointments import booking, deadlines, decisions, lifecycle, locks
from appointments.lifecycle import Change
from appointments.locks import Case
from appointments.matrix import Party, Verb
from appointments.models import AppointmentStatus
from core.actors import Actor
from core.errors import NotFound, Refused
from pin_calendar import slots


class OtherOwner(Refused):
    """The new slot belongs to another owner or tenant."""

    code = "other_owner"


class SameSlot(Refused):
    code = "same_slot"


class DeadlinePassed(Refused):
    """After the move the request would have lapsed already."""

    code = "deadline_passed"


@transaction.atomic(durable=True)
def reschedule(
    appointment_id: UUID,
    to_slot_id: UUID,
    *,
    actor: Actor,
    as_of: datetime.datetime,
    seen_version: int | None = None,
) -> Change:
    """The appointment on another slot, its event moved along, the old slot released.

    Raises NotFound, VersionConflict, NotYours, NotAllowed, TooLate, SameSlot, OtherOwner, SlotTaken, LeadTimePassed,
    DeadlinePassed, DeadlineTooNear, TooManyPending or Busy.
    """
    seen = locks.read(appointment_id)
    if seen is None:
        raise NotFound(f"there is no appointment {appointment_id}")
    # A Confirmed appointment may return to Pending, so a move competes with bookings for the cap.
    deadlines.lock_pending_count(client_user_id=seen.client_user_id, owner_user_id=seen.owner_user_id)
    case, party = decisions.hold(appointment_id, actor=actor, seen_version=seen_version, also_slot_ids=[to_slot_id])
    if case.appointment.owner_user_id != seen.owner_user_id:
        raise booking.Busy(f"appointment {appointment_id} is being changed")
    to_slot = slots.read(to_slot_id)
    if to_slot is None:
        raise NotFound(f"there is no slot {to_slot_id}")
    row = lifecycle.permit(Verb.RESCHEDULE, case, party=party, as_of=as_of, to_auto_confirm=to_slot.auto_confirm)
    if to_slot.id == case.slot.id:
        raise SameSlot(f"appointment {appointment_id} is on slot {to_slot.id} already")
    if (to_slot.owner_user_id, to_slot.tenant_id) != (case.appointment.owner_user_id, case.appointment.tenant_id):
        raise OtherOwner(f"slot {to_slot.id} is not of the owner of appointment {appointment_id}")
    booking.refuse_unbookable(to_slot, as_of=as_of)
    expires_at = None
    if row.to is AppointmentStatus.PENDING:
        expires_at = _deadline(case, to_slot.bookable_until, party=party, as_of=as_of)
    planned = lifecycle.plan(row, case, party=party, as_of=as_of, to_slot=to_slot, pending_expires_at=expires_at)
    with booking.taken_slot_told(to_slot):
        lifecycle.write([planned], actor=actor, as_of=as_of)
    return planned


def _deadline(
    case: Case, bookable_until: datetime.datetime, *, party: Party, as_of: datetime.datetime
) -> datetime.datetime:
    appointment = case.appointment
    returns_to_pending = appointment.status == AppointmentStatus.CONFIRMED
    expires_at = deadlines.deadline(
        bookable_until=bookable_until, counted_from=as_of if returns_to_pending else appointment.created_at
    )
    if not returns_to_pending and appointment.pending_expires_at:
        # One that had returned to Pending counts from that move, later than created_at; a further move adds nothing.
        expires_at = max(expires_at, min(appointment.pending_expires_at, bookable_until))
    if expires_at < as_of:
        raise DeadlinePassed(
            f"after the move appointment {appointment.id} would have lapsed at {expires_at.isoformat()}"
        )
    if party is Party.CLIENT:
        deadlines.refuse_too_near(expires_at, as_of=as_of)
    if returns_to_pending:
        deadlines.refuse_too_many_pending(
            client_user_id=appointment.client_user_id, owner_user_id=appointment.owner_user_id
        )
    return expires_at
