"""UC-CAL-011: an owner's open appointments and deadlines move to another owner of the same tenant."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction

from appointments import conflicts, lifecycle, locks
from appointments.booking import Busy
from appointments.locks import Case
from appointments.models import LIVE, ReassignmentConflict
from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from contracts.calendar import AppointmentReassigned
from core import advisory, logs, sql
from core.actors import Actor, ActorKind
from core.correlation import correlation_id
from core.database import constraint_name
from core.errors import Inconsistent, InvalidField, NotFound, Refused
from outbox.publish import publish
from pin_calendar import events, slots

log = logs.get(__name__)

VERB = "reassign"


class ReassignmentRefused(Refused):
    """Slots of the appointments overlap live slots of the new owner; `facts["conflicts"]` lists the appointments."""

    code = "reassignment_conflict"


@dataclass(frozen=True, slots=True)
class Reassignment:
    """What moved, and which appointments stayed because of a conflict (never any when done by hand)."""

    appointment_ids: tuple[UUID, ...]
    event_ids: tuple[UUID, ...]
    conflicting_appointment_ids: tuple[UUID, ...]


@transaction.atomic(durable=True)
def reassign(
    *, tenant_id: UUID, from_owner_id: UUID, to_owner_id: UUID, actor: Actor, as_of: datetime.datetime
) -> Reassignment:
    """`hand_over` in a transaction of its own."""
    return hand_over(
        tenant_id=tenant_id, from_owner_id=from_owner_id, to_owner_id=to_owner_id, actor=actor, as_of=as_of
    )


def hand_over(
    *, tenant_id: UUID, from_owner_id: UUID, to_owner_id: UUID, actor: Actor, as_of: datetime.datetime
) -> Reassignment:
    """Move all that is open and has not ended, in the caller's transaction; the reminders keep their rows.

    By a person a conflict refuses the whole (ReassignmentRefused), and so does a slot or an event that is not as the
    matrix expects (Inconsistent); by the system (the CRM) such appointments stay and are recorded. Raises NotFound for
    whom it is not to decide, InvalidField for the same owner twice, Busy.
    """
    if not (actor.is_system or (actor.kind is not ActorKind.USER and actor.acts_for_owner(from_owner_id, tenant_id))):
        raise NotFound(f"there is no tenant {tenant_id}")
    if from_owner_id == to_owner_id:
        raise InvalidField("to_owner_id", "must differ from the present owner")
    advisory.lock(f"reassignment:{tenant_id}")
    slots.lock_timetable(to_owner_id)
    cases = [
        case
        for case in locks.wait_for(_live_appointment_ids(tenant_id, from_owner_id, as_of=as_of))
        if case.appointment.status in LIVE and case.appointment.owner_user_id == from_owner_id
    ]
    conflicting = _conflicts([case.slot.id for case in cases], to_owner_id=to_owner_id)
    moving: list[Case] = []
    staying: list[Case] = []
    for case in cases:
        stays = case.slot.id in conflicting or _is_broken(case, actor=actor)
        (staying if stays else moving).append(case)
    if staying and not actor.is_system:
        ids = [str(case.appointment.id) for case in staying]
        raise ReassignmentRefused(f"{len(ids)} appointments overlap live slots of {to_owner_id}", conflicts=ids)
    kept = {case.event.id for case in staying}
    deadline_events = events.lock_deadlines(tenant_id=tenant_id, owner_user_id=from_owner_id, as_of=as_of)
    moving_events = [*(case.event for case in moving), *(event for event in deadline_events if event.id not in kept)]
    event_changes = [events.edit(event, owner_user_id=to_owner_id) for event in moving_events]
    try:
        _move(moving, to_owner_id=to_owner_id, as_of=as_of)
    except IntegrityError as error:
        if constraint_name(error) == "ex_availability_slots_owner_live_overlap":
            raise Busy(f"slots of owner {to_owner_id} are being changed") from error
        raise
    events.write(event_changes, as_of=as_of)
    stayed = [
        ReassignmentConflict(
            tenant_id=tenant_id,
            appointment_id=case.appointment.id,
            from_owner_user_id=from_owner_id,
            to_owner_user_id=to_owner_id,
            correlation_id=correlation_id(),
            created_at=as_of,
        )
        for case in staying
    ]
    ReassignmentConflict.objects.bulk_create(stayed, ignore_conflicts=True)
    settled = conflicts.resolve_of([case.appointment.id for case in moving], as_of=as_of)
    lines = [*_audit_lines(moving), *events.audit_lines(event_changes, verb=VERB), *settled]
    audit_log.record(lines, actor=actor, as_of=as_of)
    publish(_messages(moving, to_owner_id=to_owner_id, as_of=as_of), as_of=as_of)
    return Reassignment(
        appointment_ids=tuple(case.appointment.id for case in moving),
        event_ids=tuple(change.after.id for change in event_changes),
        conflicting_appointment_ids=tuple(case.appointment.id for case in staying),
    )


def _live_appointment_ids(tenant_id: UUID, owner_user_id: UUID, *, as_of: datetime.datetime) -> list[UUID]:
    found = sql.fetch(
        """
        SELECT appointment.id FROM appointments AS appointment
        JOIN calendar_events AS event ON event.id = appointment.calendar_event_id
        WHERE appointment.tenant_id = %s AND appointment.owner_user_id = %s
          AND appointment.status IN ('Pending', 'Confirmed') AND event.status = 'Scheduled' AND event.end_at > %s
        ORDER BY appointment.id
        """,
        [tenant_id, owner_user_id, as_of],
    )
    return [appointment_id for (appointment_id,) in found]


def _is_broken(case: Case, *, actor: Actor) -> bool:
    """Whether its slot or event is not its own: an error of this one, for which the CRM's others do not wait."""
    try:
        lifecycle.expect_live_cascade(case)
    except Inconsistent as error:
        if not actor.is_system:
            raise
        log.error("item failed", appointment_id=case.appointment.id, exc_info=error)
        return True
    return False


def _conflicts(slot_ids: Sequence[UUID], *, to_owner_id: UUID) -> set[UUID]:
    found = sql.fetch(
        """
        SELECT DISTINCT moving.id FROM availability_slots AS moving
        JOIN availability_slots AS theirs
          ON theirs.owner_user_id = %s AND theirs.status IN ('Available', 'Booked')
         AND tstzrange(theirs.start_at, theirs.end_at) && tstzrange(moving.start_at, moving.end_at)
        WHERE moving.id = ANY(%s)
        """,
        [to_owner_id, list(slot_ids)],
    )
    return {slot_id for (slot_id,) in found}


def _move(cases: Sequence[Case], *, to_owner_id: UUID, as_of: datetime.datetime) -> None:
    for table, ids in (
        ("appointments", [case.appointment.id for case in cases]),
        ("availability_slots", [case.slot.id for case in cases]),
    ):
        sql.execute(
            f"UPDATE {table} SET owner_user_id = %s, version = version + 1, updated_at = %s WHERE id = ANY(%s)",
            [to_owner_id, as_of, ids],
        )


def _audit_lines(cases: Iterable[Case]) -> list[Line]:
    return [
        Line(aggregate, id_, case.appointment.tenant_id, VERB, status, status)
        for case in cases
        for aggregate, id_, status in (
            (Aggregate.APPOINTMENT, case.appointment.id, case.appointment.status),
            (Aggregate.SLOT, case.slot.id, case.slot.status),
        )
    ]


def _messages(cases: Iterable[Case], *, to_owner_id: UUID, as_of: datetime.datetime) -> list[AppointmentReassigned]:
    return [
        AppointmentReassigned(
            tenant_id=case.appointment.tenant_id,
            occurred_at=as_of,
            aggregate_version=case.appointment.version + 1,
            appointment_id=case.appointment.id,
            event_id=case.event.id,
            previous_owner_user_id=case.appointment.owner_user_id,
            owner_user_id=to_owner_id,
            client_user_id=case.appointment.client_user_id,
            start_at=case.event.start_at,
            time_zone=case.event.time_zone,
        )
        for case in cases
    ]
