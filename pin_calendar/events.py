"""What can happen to a calendar event, planned by pure functions and written, with its reminders, for a list of events.

Who may ask for it is decided above: by the appointment's cascade (INV-CAL-3), by the owner, or by the CRM.
"""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

from audit.log import Line
from audit.models import Aggregate
from contracts import calendar as contracts
from contracts.calendar import EventReason, EventStatusChanged
from core import sql
from core.errors import Inconsistent
from core.ids import new_id
from pin_calendar.models import DEFAULT_OFFSETS_MINUTES, EventOrigin, EventStatus
from reminders import schedule
from reminders.models import SkipReason

_SKIP_REASON = {EventStatus.CANCELLED: SkipReason.EVENT_CANCELLED, EventStatus.COMPLETED: SkipReason.EVENT_COMPLETED}


@dataclass(frozen=True, slots=True)
class Event:
    """An event's row as read, usually under its lock. The fields are its columns."""

    id: UUID
    tenant_id: UUID
    owner_user_id: UUID
    client_user_id: UUID | None
    origin: str
    source_id: UUID | None
    title: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    reminder_offsets_minutes: list[int]
    status: str
    cancel_reason: str
    version: int

    @property
    def appointment_id(self) -> UUID | None:
        return self.source_id if self.origin == EventOrigin.APPOINTMENT else None

    @property
    def timetable(self) -> schedule.Timetable:
        return schedule.Timetable(self.id, self.start_at, tuple(self.reminder_offsets_minutes))


@dataclass(frozen=True, slots=True)
class EventChange:
    """An event before and after; `after.version` is one higher."""

    before: Event
    after: Event
    reason: EventReason | None = None

    @property
    def is_finished(self) -> bool:
        return self.before.status != self.after.status

    @property
    def moves_reminders(self) -> bool:
        return not self.is_finished and not self.before.timetable.is_like(self.after.timetable)


def new(
    *,
    tenant_id: UUID,
    owner_user_id: UUID,
    client_user_id: UUID | None,
    origin: EventOrigin,
    source_id: UUID | None,
    title: str,
    start_at: datetime.datetime,
    end_at: datetime.datetime,
    time_zone: str,
    reminder_offsets_minutes: Iterable[int] = DEFAULT_OFFSETS_MINUTES,
) -> Event:
    """A Scheduled event of version 1, not yet written (see `insert`)."""
    return Event(
        id=new_id(),
        tenant_id=tenant_id,
        owner_user_id=owner_user_id,
        client_user_id=client_user_id,
        origin=origin.value,
        source_id=source_id,
        title=title,
        start_at=start_at,
        end_at=end_at,
        time_zone=time_zone,
        reminder_offsets_minutes=list(reminder_offsets_minutes),
        status=EventStatus.SCHEDULED.value,
        cancel_reason="",
        version=1,
    )


def cancel(event: Event, *, reason: EventReason, cancel_reason: str) -> EventChange:
    """Scheduled → Cancelled with a text for people and a code for services."""
    return _finish(event, EventStatus.CANCELLED, reason=reason, cancel_reason=cancel_reason)


def complete(event: Event, *, reason: EventReason | None = None) -> EventChange:
    """Scheduled → Completed."""
    return _finish(event, EventStatus.COMPLETED, reason=reason, cancel_reason="")


def _finish(event: Event, to: EventStatus, *, reason: EventReason | None, cancel_reason: str) -> EventChange:
    if event.status != EventStatus.SCHEDULED:
        raise Inconsistent(f"event {event.id} is {event.status}, not Scheduled")
    after = replace(event, status=to.value, cancel_reason=cancel_reason, version=event.version + 1)
    return EventChange(event, after, reason)


def move(event: Event, *, start_at: datetime.datetime, end_at: datetime.datetime, time_zone: str) -> EventChange:
    """Other times for a Scheduled event; its reminders follow when it is written."""
    return edit(event, start_at=start_at, end_at=end_at, time_zone=time_zone)


def edit(event: Event, **fields: Any) -> EventChange:
    """Other values for columns of a Scheduled event, its status aside."""
    if event.status != EventStatus.SCHEDULED:
        raise Inconsistent(f"event {event.id} is {event.status}, not Scheduled")
    return EventChange(event, replace(event, **fields, version=event.version + 1))


def lock(event_id: UUID) -> Event | None:
    """The event, locked, as it is after the wait."""
    sql.execute("SELECT 1 FROM calendar_events WHERE id = %s FOR NO KEY UPDATE", [event_id])
    select = f"SELECT {sql.columns(Event, 'event')} FROM calendar_events AS event WHERE id = %s"
    found = sql.read(Event, select, [event_id])
    return found[0] if found else None


def lock_deadlines(*, tenant_id: UUID, owner_user_id: UUID, as_of: datetime.datetime) -> list[Event]:
    """The owner's Scheduled CRM deadlines that are still ahead, locked in id order."""
    return sql.read(
        Event,
        f"""
        SELECT {sql.columns(Event, "event")} FROM calendar_events AS event
        WHERE tenant_id = %s AND owner_user_id = %s AND origin = 'CrmDeadline' AND status = 'Scheduled' AND end_at > %s
        ORDER BY id FOR NO KEY UPDATE
        """,
        [tenant_id, owner_user_id, as_of],
    )


def insert(events: Sequence[Event], *, as_of: datetime.datetime) -> None:
    """Write new events and materialise their reminders (rule 1)."""
    if not events:
        return
    sql.write(
        f"""
        INSERT INTO calendar_events ({_COLUMNS}, created_at, updated_at)
        SELECT {sql.columns(Event, "x")}, %s, %s FROM jsonb_to_recordset(%s::jsonb) AS x({_RECORD})
        """,
        [as_of, as_of, sql.as_json(events)],
    )
    schedule.materialise([event.timetable for event in events], as_of=as_of)


def write(changes: Sequence[EventChange], *, as_of: datetime.datetime) -> None:
    """Write the changes of locked events, their reminders with them; raises Inconsistent when one is not as read."""
    if not changes:
        return
    sql.write(
        f"""
        UPDATE calendar_events AS event
        SET owner_user_id = x.owner_user_id, client_user_id = x.client_user_id, title = x.title,
            start_at = x.start_at, end_at = x.end_at, time_zone = x.time_zone,
            reminder_offsets_minutes = x.reminder_offsets_minutes, status = x.status,
            cancel_reason = x.cancel_reason, version = x.version, updated_at = %s
        FROM jsonb_to_recordset(%s::jsonb) AS x({_RECORD})
        WHERE event.id = x.id AND event.version = x.version - 1 AND event.id = ANY(%s::uuid[])
        """,
        [as_of, sql.as_json(change.after for change in changes), sql.array(change.after.id.hex for change in changes)],
        check=sql.expect(len(changes), of="events"),
    )
    for status, skip_reason in _SKIP_REASON.items():
        finished = [change.after.id for change in changes if change.is_finished and change.after.status == status]
        schedule.skip(finished, reason=skip_reason, as_of=as_of)
    schedule.rematerialise([change.after.timetable for change in changes if change.moves_reminders], as_of=as_of)


def messages(changes: Iterable[EventChange], *, as_of: datetime.datetime) -> list[EventStatusChanged]:
    """Each status change of any event is told once."""
    return [
        EventStatusChanged(
            tenant_id=after.tenant_id,
            occurred_at=as_of,
            aggregate_version=after.version,
            event_id=after.id,
            owner_user_id=after.owner_user_id,
            client_user_id=after.client_user_id,
            origin=contracts.EventOrigin(after.origin),
            appointment_id=after.appointment_id,
            previous_status=contracts.EventStatus(change.before.status),
            status=contracts.EventStatus(after.status),
            start_at=after.start_at,
            time_zone=after.time_zone,
            reason=change.reason,
        )
        for change in changes
        if change.is_finished
        for after in (change.after,)
    ]


def audit_lines(changes: Iterable[EventChange], *, verb: str) -> list[Line]:
    """One line an event."""
    return [
        Line(Aggregate.EVENT, c.after.id, c.after.tenant_id, verb, c.before.status, c.after.status) for c in changes
    ]


def creation_lines(events: Iterable[Event], *, verb: str) -> list[Line]:
    """One line a new event."""
    return [Line(Aggregate.EVENT, event.id, event.tenant_id, verb, "", event.status) for event in events]


_COLUMNS = ", ".join(field.name for field in fields(Event))
_RECORD = """id uuid, tenant_id uuid, owner_user_id uuid, client_user_id uuid, origin text, source_id uuid, title text,
             start_at timestamptz, end_at timestamptz, time_zone text, reminder_offsets_minutes int[], status text,
             cancel_reason text, version int"""
