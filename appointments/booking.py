"""A client asks for a slot of the showcase."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import IntegrityError, transaction

from appointments import deadlines, lifecycle
from appointments.locks import Facts
from appointments.matrix import Party, Verb, find
from appointments.models import AppointmentStatus
from core.actors import Actor
from core.database import constraint_name
from core.errors import Inconsistent, NotFound, Refused, refuse_stale
from core.ids import new_id
from pin_calendar import events, slots
from pin_calendar.models import EventOrigin, SlotStatus
from pin_calendar.slots import Slot

TITLE = "Встреча по записи"


class SlotTaken(Refused):
    """The slot is not Available, or was taken in this moment."""

    code = "slot_taken"


class LeadTimePassed(Refused):
    """The slot starts too soon to be booked."""

    code = "lead_time_passed"


class Busy(Refused):
    """Another change of the same records is under way; trying again will help."""

    code = "busy"


def refuse_unbookable(slot: Slot, *, as_of: datetime.datetime) -> None:
    """The showcase's rule. Raises SlotTaken (with the slot's status) or LeadTimePassed."""
    if slot.status != SlotStatus.AVAILABLE:
        raise SlotTaken(f"slot {slot.id} is {slot.status}", status=slot.status)
    if as_of > slot.bookable_until:
        raise LeadTimePassed(f"slot {slot.id} could be booked until {slot.bookable_until.isoformat()}")


@contextmanager
def taken_slot_told(slot: Slot) -> Iterator[None]:
    """Raises SlotTaken where the constraint finds a live appointment on a slot that called itself Available."""
    try:
        yield
    except IntegrityError as error:
        if constraint_name(error) != "uq_appointments_inv_slt_3_one_live_a_slot":
            raise
        raise SlotTaken(f"slot {slot.id} has a live appointment", status=slot.status) from error


@transaction.atomic
def book(slot_id: UUID, *, actor: Actor, as_of: datetime.datetime, seen_version: int | None = None) -> Facts:
    """The actor's new appointment on the slot: Pending, or Confirmed on an auto-confirm slot.

    `seen_version` is the version of the slot that they saw, if they say. A caller's transaction may keep more with it
    (the API's answer under an Idempotency-Key). Raises NotFound, VersionConflict, SlotTaken, LeadTimePassed,
    DeadlineTooNear, TooManyPending or Busy.
    """
    if actor.user_id is None:
        raise Inconsistent("only a person can book")
    client_user_id = actor.user_id
    seen = slots.read(slot_id)
    if seen is None:
        raise NotFound(f"there is no slot {slot_id}")
    deadlines.lock_pending_count(client_user_id=client_user_id, owner_user_id=seen.owner_user_id)
    slot = slots.lock(slot_id)
    if slot is None or slot.owner_user_id != seen.owner_user_id:
        raise Busy(f"slot {slot_id} is being changed")
    refuse_stale(f"slot {slot_id}", version=slot.version, seen=seen_version)
    refuse_unbookable(slot, as_of=as_of)
    row = find(Verb.BOOK, Party.CLIENT, None, auto_confirm=slot.auto_confirm)
    if row is None:
        raise Inconsistent("the matrix has no row for a booking")
    expires_at = None
    if row.to is AppointmentStatus.PENDING:
        expires_at = deadlines.deadline(bookable_until=slot.bookable_until, counted_from=as_of)
        deadlines.refuse_too_near(expires_at, as_of=as_of)
        deadlines.refuse_too_many_pending(client_user_id=client_user_id, owner_user_id=slot.owner_user_id)

    appointment_id = new_id()
    event = events.new(
        tenant_id=slot.tenant_id,
        owner_user_id=slot.owner_user_id,
        client_user_id=client_user_id,
        origin=EventOrigin.APPOINTMENT,
        source_id=appointment_id,
        title=TITLE,
        start_at=slot.start_at,
        end_at=slot.end_at,
        time_zone=slot.time_zone,
    )
    appointment = Facts(
        id=appointment_id,
        tenant_id=slot.tenant_id,
        slot_id=slot.id,
        calendar_event_id=event.id,
        owner_user_id=slot.owner_user_id,
        client_user_id=client_user_id,
        status=row.to.value,
        pending_expires_at=expires_at,
        cancelled_by=None,
        cancel_reason="",
        version=1,
        created_at=as_of,
    )
    with taken_slot_told(slot):
        change = lifecycle.plan_booking(row, appointment, slot, event)
        lifecycle.write([change], actor=actor, as_of=as_of)
    return appointment
