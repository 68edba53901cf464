"""Reading appointments with their slot and event under locks, always in the order appointment → slot → event.

FOR NO KEY UPDATE, so that inserts that point at a row by foreign key do not wait for it.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self
from uuid import UUID

from core import sql
from core.errors import Inconsistent
from pin_calendar.events import Event
from pin_calendar.slots import Slot
from reminders import schedule


@dataclass(frozen=True, slots=True)
class Facts:
    """An appointment's row as read. The fields are its columns."""

    id: UUID
    tenant_id: UUID
    slot_id: UUID
    calendar_event_id: UUID
    owner_user_id: UUID
    client_user_id: UUID
    status: str
    pending_expires_at: datetime.datetime | None
    cancelled_by: str | None
    cancel_reason: str
    version: int
    created_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class Case:
    """An appointment with its slot and its event, locked together."""

    appointment: Facts
    slot: Slot
    event: Event


_COLUMNS = f"{sql.columns(Facts, 'appointment')}, {sql.columns(Slot, 'slot')}, {sql.columns(Event, 'event')}"
_SELECT = f"""
SELECT {_COLUMNS}
FROM appointments AS appointment
JOIN availability_slots AS slot ON slot.id = appointment.slot_id
JOIN calendar_events AS event ON event.id = appointment.calendar_event_id
"""
_SLOT_FROM = len(fields(Facts))
_EVENT_FROM = _SLOT_FROM + len(fields(Slot))
_EVENT_TO = _EVENT_FROM + len(fields(Event))

_EXPIRY_ORDER = "ORDER BY appointment.pending_expires_at, appointment.id"

# Written as a literal, so that every plan can use the partial index ix_appointments_pending_expires_at.
OVERDUE = "appointment.status = 'Pending' AND appointment.pending_expires_at < %s"


def _case(row: Sequence[Any]) -> Case:
    return Case(Facts(*row[:_SLOT_FROM]), Slot(*row[_SLOT_FROM:_EVENT_FROM]), Event(*row[_EVENT_FROM:_EVENT_TO]))


def _cases(query: str, params: Sequence[Any]) -> list[Case]:
    return [_case(row) for row in sql.fetch(query, params)]


def wait_for(appointment_ids: Sequence[UUID], *, also_slot_ids: Sequence[UUID] = ()) -> list[Case]:
    """Lock these appointments, their slots (and further ones) and events, each kind in id order, waiting where needed.

    One statement a kind: after a wait each reads what the other transaction has committed. Unknown ids are left out.
    """
    held = sql.fetch(
        "SELECT slot_id, calendar_event_id FROM appointments WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
        [list(appointment_ids)],
    )
    slot_ids = [slot_id for slot_id, _ in held] + list(also_slot_ids)
    sql.execute("SELECT 1 FROM availability_slots WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [slot_ids])
    sql.execute(
        "SELECT 1 FROM calendar_events WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
        [[event_id for _, event_id in held]],
    )
    return _cases(f"{_SELECT} WHERE appointment.id = ANY(%s) ORDER BY appointment.id", [list(appointment_ids)])


def read(appointment_id: UUID) -> Facts | None:
    """The appointment as it is now, without a lock."""
    select = f"SELECT {sql.columns(Facts, 'appointment')} FROM appointments AS appointment WHERE id = %s"
    found = sql.read(Facts, select, [appointment_id])
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of an appointment in the order of expiry."""

    pending_expires_at: datetime.datetime
    appointment_id: UUID

    @classmethod
    def at(cls, case: Case) -> Self:
        """Just behind this overdue appointment."""
        if case.appointment.pending_expires_at is None:
            raise Inconsistent(f"appointment {case.appointment.id} is overdue without a deadline")
        return cls(case.appointment.pending_expires_at, case.appointment.id)


def read_overdue(*, as_of: datetime.datetime, limit: int) -> list[Case]:
    """The first overdue appointments in the order of expiry, without locks."""
    return _cases(f"{_SELECT} WHERE {OVERDUE} {_EXPIRY_ORDER} LIMIT %s", [as_of, limit])


def count_overdue(
    *,
    as_of: datetime.datetime,
    up_to: Cursor | None = None,
    without: Sequence[UUID] = (),
    at_most: int | None = None,
) -> int:
    """How many are overdue (up to a place in the order of expiry, without some, counting no further than `at_most`)."""
    condition = f"{OVERDUE} AND appointment.id <> ALL(%s)"
    params: list[Any] = [as_of, list(without)]
    if up_to is not None:
        condition += " AND (appointment.pending_expires_at, appointment.id) <= (%s, %s)"
        params += [up_to.pending_expires_at, up_to.appointment_id]
    query = f"SELECT 1 FROM appointments AS appointment WHERE {condition} LIMIT %s"
    [(count,)] = sql.fetch(f"SELECT count(*) FROM ({query}) AS overdue", [*params, at_most])
    return int(count)


@dataclass(frozen=True, slots=True)
class Claim:
    """Overdue appointments held whole, and the place of the last one looked at: None where there was none to have."""

    cases: list[Case]
    reached: Cursor | None


def claim_overdue(*, as_of: datetime.datetime, after: Cursor | None, without: Sequence[UUID], limit: int) -> Claim:
    """The next overdue appointments in the order of expiry, those that can be had whole without waiting."""
    condition = OVERDUE
    params: list[Any] = [as_of]
    if after is not None:
        condition += " AND (appointment.pending_expires_at, appointment.id) > (%s, %s)"
        params += [after.pending_expires_at, after.appointment_id]
    if without:
        condition += " AND appointment.id <> ALL(%b)"
        params.append(list(without))
    return _claim(condition, params, limit=limit)


def claim_again(appointment_ids: Sequence[UUID], *, as_of: datetime.datetime) -> list[Case]:
    """Those of these appointments that are still overdue and can be had whole without waiting."""
    condition = f"{OVERDUE} AND appointment.id = ANY(%b)"
    return _claim(condition, [as_of, list(appointment_ids)], limit=len(appointment_ids)).cases


def _claim(condition: str, params: Sequence[Any], *, limit: int) -> Claim:
    """Locks appointment, slot and event, then the event's Pending reminders, in one statement.

    A case of which a reminder is in another hand, or has just been sent by one, is left out. The outer query reads the
    claimed rows as they were locked, in the order of expiry.
    """
    rows = sql.fetch(
        f"""
        SELECT claimed.*, {schedule.IS_HELD.format(event_id="claimed.calendar_event_id")} FROM (
            {_SELECT} WHERE {condition} {_EXPIRY_ORDER} LIMIT %s
            FOR NO KEY UPDATE OF appointment, slot, event SKIP LOCKED
        ) AS claimed
        """,
        [*params, limit],
    )
    if not rows:
        return Claim([], None)
    return Claim([_case(row) for row in rows if row[-1]], Cursor.at(_case(rows[-1])))
