"""Applying a row of the matrix: planned by pure functions from what was read, then written for a list of appointments.

The cascade is indivisible (INV-APT-6): appointment, slot, event, reminders, audit lines and messages commit together.
It exists once, here; a list of one is the same code as a list of two hundred.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypedDict
from uuid import UUID

from appointments.locks import Case, Facts
from appointments.matrix import EventEffect, Party, Row, SlotEffect, Verb, When, find, rows
from appointments.models import AppointmentStatus, CancelledBy
from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from contracts.base import Message
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentCompleted,
    AppointmentConfirmed,
    AppointmentOutcome,
    AppointmentRescheduled,
    CancelReason,
    EventReason,
    LiveStatus,
    SlotOutcome,
)
from core import sql
from core.actors import Actor
from core.errors import Inconsistent, Refused
from outbox.publish import publish
from pin_calendar import events, slots
from pin_calendar.events import Event, EventChange
from pin_calendar.models import EventOrigin, EventStatus, SlotStatus
from pin_calendar.slots import Slot, SlotChange


class NotAllowed(Refused):
    """The matrix has no such transition for the appointment's present status."""

    code = "not_allowed"


class NotYours(Refused):
    """The matrix has no such verb for the actor's part in the appointment."""

    code = "not_yours"


class TooLate(Refused):
    code = "too_late"


class TooEarly(Refused):
    code = "too_early"


_TEXTS: dict[tuple[Verb, Party], str] = {
    (Verb.DECLINE, Party.OWNER): "Запись отклонена агентом",
    (Verb.CANCEL, Party.CLIENT): "Запись отменена клиентом",
    (Verb.CANCEL, Party.OWNER): "Запись отменена агентом",
    (Verb.EXPIRE, Party.TIMEOUT): "Запись не подтверждена агентом в срок",
}
_REASONS: dict[tuple[Verb, Party], CancelReason] = {
    (Verb.DECLINE, Party.OWNER): CancelReason.DECLINED,
    (Verb.CANCEL, Party.CLIENT): CancelReason.CANCELLED_BY_CLIENT,
    (Verb.CANCEL, Party.OWNER): CancelReason.CANCELLED_BY_OWNER,
    (Verb.EXPIRE, Party.TIMEOUT): CancelReason.EXPIRED,
}
_CANCELLED_BY = {Party.CLIENT: CancelledBy.CLIENT, Party.OWNER: CancelledBy.OWNER}
_OUTCOMES = {Verb.COMPLETE: AppointmentOutcome.COMPLETED, Verb.NO_SHOW: AppointmentOutcome.NO_SHOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One planned transition: what it finds and what it leaves. Nothing is written yet."""

    row: Row
    party: Party
    before: Facts | None
    after: Facts
    slot: Slot
    to_slot: Slot
    slot_changes: tuple[SlotChange, ...]
    event_change: EventChange | None
    new_event: Event | None = None

    def messages(self, *, as_of: datetime.datetime) -> list[Message]:
        """What tells the transition, in order; made when it is asked for, which is while the server writes."""
        told = [_TELL[kind](self, as_of) for kind in self.row.messages if kind in _TELL]
        return told + events.messages([self.event_change] if self.event_change else [], as_of=as_of)

    @property
    def is_slot_released(self) -> bool:
        """Whether the slot that the appointment held is bookable again."""
        return any(change.to is SlotStatus.AVAILABLE for change in self.slot_changes)


def party_of(actor: Actor, appointment: Facts) -> Party | None:
    """The actor's part; None for a stranger. Who is both owner and client acts as the owner."""
    if actor.is_system:
        return Party.TIMEOUT
    if actor.acts_for_owner(appointment.owner_user_id, appointment.tenant_id):
        return Party.OWNER
    return Party.CLIENT if actor.user_id == appointment.client_user_id else None


def permit(verb: Verb, case: Case, *, party: Party, as_of: datetime.datetime, to_auto_confirm: bool = False) -> Row:
    """The row of the matrix for this request. Raises NotYours, NotAllowed, TooLate or TooEarly."""
    status = AppointmentStatus(case.appointment.status)
    row = find(verb, party, status, auto_confirm=to_auto_confirm)
    if row is None:
        if not any(rows(verb, party)):
            raise NotYours(f"{verb} is not for the {party} of appointment {case.appointment.id}", status=status.value)
        raise NotAllowed(f"appointment {case.appointment.id} is {status}", status=status.value)
    start_at = case.slot.start_at
    if row.when in (When.BEFORE_START, When.MOVABLE) and as_of >= start_at:
        raise TooLate(f"appointment {case.appointment.id} ({status}) has started", status=status.value)
    if row.when is When.FROM_START and as_of < start_at:
        raise TooEarly(f"appointment {case.appointment.id} ({status}) has not started yet", status=status.value)
    deadline = case.appointment.pending_expires_at
    if row.when is When.OVERDUE and not (deadline and deadline < as_of):
        raise TooEarly(f"appointment {case.appointment.id} ({status}) is not overdue", status=status.value)
    return row


def plan(
    row: Row,
    case: Case,
    *,
    party: Party,
    as_of: datetime.datetime,
    reason: str = "",
    to_slot: Slot | None = None,
    pending_expires_at: datetime.datetime | None = None,
) -> Change:
    """The row applied to the case. Raises Inconsistent when its slot or event is not as the matrix expects."""
    before = case.appointment
    expect_live_cascade(case)
    if (row.slot is SlotEffect.SWAP) != (to_slot is not None):
        raise Inconsistent(f"{row.verb} of appointment {before.id}: a move, and nothing else, goes to another slot")
    text = (reason or _TEXTS.get((row.verb, party), "")) if row.event is EventEffect.CANCEL else ""
    after = replace(
        before,
        slot_id=to_slot.id if to_slot else before.slot_id,
        status=row.to.value,
        pending_expires_at=pending_expires_at or before.pending_expires_at,
        cancelled_by=_CANCELLED_BY[party].value if row.to is AppointmentStatus.CANCELLED else None,
        cancel_reason="" if row.to is AppointmentStatus.EXPIRED else text,
        version=before.version + 1,
    )
    slot_changes: tuple[SlotChange, ...] = ()
    if row.slot in (SlotEffect.RELEASE, SlotEffect.SWAP):
        slot_changes = (slots.release(case.slot, as_of=as_of),)
    if to_slot:
        slot_changes += (slots.book(to_slot),)
    event_change: EventChange | None = None
    if row.event is EventEffect.CANCEL:
        code = EventReason(_REASONS[row.verb, party].value)
        event_change = events.cancel(case.event, reason=code, cancel_reason=text)
    elif row.event is EventEffect.COMPLETE:
        event_change = events.complete(case.event)
    elif row.event is EventEffect.MOVE and to_slot:
        event_change = events.move(
            case.event, start_at=to_slot.start_at, end_at=to_slot.end_at, time_zone=to_slot.time_zone
        )
    return Change(
        row=row,
        party=party,
        before=before,
        after=after,
        slot=case.slot,
        to_slot=to_slot or case.slot,
        slot_changes=slot_changes,
        event_change=event_change,
    )


def plan_booking(row: Row, appointment: Facts, slot: Slot, event: Event) -> Change:
    """A new appointment with its new event on an Available slot, by one of the rows that begin at nothing."""
    return Change(
        row=row,
        party=Party.CLIENT,
        before=None,
        after=appointment,
        slot=slot,
        to_slot=slot,
        slot_changes=(slots.book(slot),),
        event_change=None,
        new_event=event,
    )


def write(changes: Sequence[Change], *, actor: Actor, as_of: datetime.datetime) -> None:
    """Write planned changes of locked appointments, a statement a table, in the order of the locks.

    Raises Inconsistent when a row is not as it was read, and whatever the database refuses; the caller's transaction
    then takes all of it back.
    """
    _write_appointments([change for change in changes if change.before], as_of=as_of)
    events.insert([change.new_event for change in changes if change.new_event], as_of=as_of)
    _insert_appointments([change.after for change in changes if not change.before], as_of=as_of)
    slots.write([slot_change for change in changes for slot_change in change.slot_changes], as_of=as_of)
    events.write([change.event_change for change in changes if change.event_change], as_of=as_of)
    audit_log.record([line for change in changes for line in _audit_lines(change)], actor=actor, as_of=as_of)
    publish([message for change in changes for message in change.messages(as_of=as_of)], as_of=as_of)


def expect_live_cascade(case: Case) -> None:
    """Raises Inconsistent unless the slot and the event are as those of a live appointment."""
    appointment, slot, event = case.appointment, case.slot, case.event
    if slot.status != SlotStatus.BOOKED:
        raise Inconsistent(f"slot {slot.id} is {slot.status}, not Booked")
    if event.status != EventStatus.SCHEDULED:
        raise Inconsistent(f"event {event.id} is {event.status}, not Scheduled")
    if event.origin != EventOrigin.APPOINTMENT or event.source_id != appointment.id:
        raise Inconsistent(f"event {event.id} of origin {event.origin} is not that of appointment {appointment.id}")


def _write_appointments(changes: Sequence[Change], *, as_of: datetime.datetime) -> None:
    if not changes:
        return
    sql.write(
        """
        UPDATE appointments AS appointment
        SET slot_id = x.slot_id, status = x.status, pending_expires_at = x.pending_expires_at,
            cancelled_by = x.cancelled_by, cancel_reason = x.cancel_reason, version = x.version, updated_at = %s
        FROM jsonb_to_recordset(%s::jsonb) AS x(
            id uuid, slot_id uuid, status text, pending_expires_at timestamptz, cancelled_by text, cancel_reason text,
            version int)
        WHERE appointment.id = x.id AND appointment.version = x.version - 1 AND appointment.id = ANY(%s::uuid[])
        """,
        [as_of, sql.as_json(change.after for change in changes), sql.array(change.after.id.hex for change in changes)],
        check=sql.expect(len(changes), of="appointments"),
    )


def _insert_appointments(appointments: Sequence[Facts], *, as_of: datetime.datetime) -> None:
    if not appointments:
        return
    names = ", ".join(field.name for field in fields(Facts))
    sql.write(
        f"""
        INSERT INTO appointments ({names}, updated_at)
        SELECT {sql.columns(Facts, "x")}, %s
        FROM jsonb_to_recordset(%s::jsonb) AS x(
            id uuid, tenant_id uuid, slot_id uuid, calendar_event_id uuid, owner_user_id uuid, client_user_id uuid,
            status text, pending_expires_at timestamptz, cancelled_by text, cancel_reason text, version int,
            created_at timestamptz)
        """,
        [as_of, sql.as_json(appointments)],
    )


def _audit_lines(change: Change) -> list[Line]:
    verb, after = change.row.verb, change.after
    from_status = change.before.status if change.before else ""
    lines = [Line(Aggregate.APPOINTMENT, after.id, after.tenant_id, verb, from_status, after.status)]
    lines += slots.audit_lines(change.slot_changes, verb=verb)
    lines += events.audit_lines([change.event_change] if change.event_change else [], verb=verb)
    lines += events.creation_lines([change.new_event] if change.new_event else [], verb=verb)
    return lines


class _Common(TypedDict):
    tenant_id: UUID
    occurred_at: datetime.datetime
    aggregate_version: int
    appointment_id: UUID
    event_id: UUID
    owner_user_id: UUID
    client_user_id: UUID


def _common(change: Change, as_of: datetime.datetime) -> _Common:
    after = change.after
    return {
        "tenant_id": after.tenant_id,
        "occurred_at": as_of,
        "aggregate_version": after.version,
        "appointment_id": after.id,
        "event_id": after.calendar_event_id,
        "owner_user_id": after.owner_user_id,
        "client_user_id": after.client_user_id,
    }


class _Place(TypedDict):
    slot_id: UUID
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str


def _place(slot: Slot) -> _Place:
    return {"slot_id": slot.id, "start_at": slot.start_at, "end_at": slot.end_at, "time_zone": slot.time_zone}


def _booked(change: Change, as_of: datetime.datetime) -> Message:
    return AppointmentBooked(
        **_common(change, as_of),
        **_place(change.to_slot),
        status=LiveStatus(change.after.status),
        pending_expires_at=change.after.pending_expires_at,
    )


def _confirmed(change: Change, as_of: datetime.datetime) -> Message:
    return AppointmentConfirmed(**_common(change, as_of), **_place(change.to_slot))


def _rescheduled(change: Change, as_of: datetime.datetime) -> Message:
    return AppointmentRescheduled(
        **_common(change, as_of),
        **_place(change.to_slot),
        previous_slot_id=change.slot.id,
        previous_start_at=change.slot.start_at,
        status=LiveStatus(change.after.status),
    )


def _cancelled(change: Change, as_of: datetime.datetime) -> Message:
    return AppointmentCancelled(
        **_common(change, as_of),
        slot_id=change.slot.id,
        start_at=change.slot.start_at,
        time_zone=change.slot.time_zone,
        reason=_REASONS[change.row.verb, change.party],
        slot_outcome=SlotOutcome.RELEASED if change.is_slot_released else SlotOutcome.EXPIRED,
    )


def _completed(change: Change, as_of: datetime.datetime) -> Message:
    return AppointmentCompleted(**_common(change, as_of), outcome=_OUTCOMES[change.row.verb])


# EventStatusChanged is told by the events themselves.
_TELL: dict[type[Message], Callable[[Change, datetime.datetime], Message]] = {
    AppointmentBooked: _booked,
    AppointmentConfirmed: _confirmed,
    AppointmentRescheduled: _rescheduled,
    AppointmentCancelled: _cancelled,
    AppointmentCompleted: _completed,
}
