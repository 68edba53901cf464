"""Rules 1 to 3 of reminders, called by the events' own services in the same transaction, on locked events."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from core import sql
from core.ids import new_id
from reminders.models import ReminderStatus, SkipReason

# Rows that are known by their event or id are asked whether they are Pending by what they are not: a planner that has
# heard of few Pending rows would else walk the whole index of those that are due, for a claim once for each event.
_IS_PENDING = "status NOT IN ('Sent', 'Skipped')"
# For a statement that claims events without waiting: locks what is Pending of an event, and is true when it got all of
# it. What another hand has sent since the statement began counts as elsewhere.
IS_HELD = f"""(
    SELECT count(*) FROM (
        SELECT FROM event_reminders WHERE event_id = {{event_id}} AND {_IS_PENDING} FOR NO KEY UPDATE SKIP LOCKED
    ) AS held
) = (SELECT count(*) FROM event_reminders WHERE event_id = {{event_id}} AND {_IS_PENDING})"""


@dataclass(frozen=True, slots=True)
class Timetable:
    """What an event's reminders follow from."""

    event_id: UUID
    start_at: datetime.datetime
    offsets_minutes: tuple[int, ...]

    def is_like(self, other: "Timetable") -> bool:
        """Whether the same reminders follow from both: the order of the offsets says nothing."""
        return self.start_at == other.start_at and set(self.offsets_minutes) == set(other.offsets_minutes)


def materialise(timetables: Iterable[Timetable], *, as_of: datetime.datetime) -> None:
    """Rule 1: a row an offset, due at start − offset; Pending, or at once Skipped (past) when that is already gone."""
    rows = [_row(timetable, offset, as_of=as_of) for timetable in timetables for offset in timetable.offsets_minutes]
    if not rows:
        return
    sql.write(
        """
        INSERT INTO event_reminders (id, event_id, offset_minutes, due_at, status, skip_reason, created_at, updated_at)
        SELECT x.id, x.event_id, x.offset_minutes, x.due_at, x.status, x.skip_reason, %s, %s
        FROM jsonb_to_recordset(%s::jsonb) AS x(id uuid, event_id uuid, offset_minutes int, due_at timestamptz,
                                                status text, skip_reason text)
        """,
        [as_of, as_of, sql.as_json(rows)],
    )


def rematerialise(timetables: Sequence[Timetable], *, as_of: datetime.datetime) -> None:
    """Rule 2: Pending rows go and rule 1 applies anew; Sent and Skipped rows are history and stay."""
    if not timetables:
        return
    sql.write(
        f"DELETE FROM event_reminders WHERE event_id = ANY(%s::uuid[]) AND {_IS_PENDING}",
        [sql.array(timetable.event_id.hex for timetable in timetables)],
    )
    materialise(timetables, as_of=as_of)


def skip(event_ids: Sequence[UUID], *, reason: SkipReason, as_of: datetime.datetime) -> None:
    """Rule 3: what is still Pending of these events is Skipped for this reason."""
    if not event_ids:
        return
    sql.write(
        f"""
        UPDATE event_reminders SET status = 'Skipped', skip_reason = %s, updated_at = %s
        WHERE event_id = ANY(%s::uuid[]) AND {_IS_PENDING}
        """,
        [reason.value, as_of, sql.array(event_id.hex for event_id in event_ids)],
    )


def mark_sent(reminder_ids: Sequence[UUID], *, as_of: datetime.datetime) -> None:
    """Pending → Sent for locked rows, in the transaction that tells them. Raises Inconsistent for one not Pending."""
    _mark(reminder_ids, ReminderStatus.SENT, sent_at=as_of, skip_reason=None, as_of=as_of)


def mark_stale(reminder_ids: Sequence[UUID], *, as_of: datetime.datetime) -> None:
    """Pending → Skipped (event_over) for locked rows. Raises Inconsistent for one not Pending."""
    _mark(reminder_ids, ReminderStatus.SKIPPED, sent_at=None, skip_reason=SkipReason.EVENT_OVER.value, as_of=as_of)


def _mark(
    reminder_ids: Sequence[UUID],
    status: ReminderStatus,
    *,
    sent_at: datetime.datetime | None,
    skip_reason: str | None,
    as_of: datetime.datetime,
) -> None:
    if not reminder_ids:
        return
    sql.write(
        f"""
        UPDATE event_reminders SET status = %s, sent_at = %s, skip_reason = %s, updated_at = %s
        WHERE id = ANY(%s::uuid[]) AND {_IS_PENDING}
        """,
        [status.value, sent_at, skip_reason, as_of, sql.array(reminder_id.hex for reminder_id in reminder_ids)],
        check=sql.expect(len(reminder_ids), of="reminders"),
    )


def is_silent(timetable: Timetable, *, as_of: datetime.datetime) -> bool:
    """Whether no reminder at all will be sent although some were wanted: every offset is already past."""
    offsets = timetable.offsets_minutes
    return bool(offsets) and all(_due_at(timetable, minutes) < as_of for minutes in offsets)


def _due_at(timetable: Timetable, offset_minutes: int) -> datetime.datetime:
    """In UTC, as subtracting from a local time would move its clock, and not the instant, over a change of DST."""
    return timetable.start_at.astimezone(datetime.UTC) - datetime.timedelta(minutes=offset_minutes)


def _row(timetable: Timetable, offset_minutes: int, *, as_of: datetime.datetime) -> dict[str, Any]:
    due_at = _due_at(timetable, offset_minutes)
    is_past = due_at < as_of
    return {
        "id": new_id(),
        "event_id": timetable.event_id,
        "offset_minutes": offset_minutes,
        "due_at": due_at,
        "status": (ReminderStatus.SKIPPED if is_past else ReminderStatus.PENDING).value,
        "skip_reason": SkipReason.PAST.value if is_past else None,
    }
