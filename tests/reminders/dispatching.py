"""Due reminders and runs of the dispatcher, for the tests of this package."""

import datetime
from collections.abc import Callable
from typing import Any

from core import sql
from pin_calendar.models import CalendarEvent, EventOrigin
from reminders.dispatch import DispatchJob, DispatchResult
from reminders.models import EventReminder, ReminderStatus
from tests.factories import HOUR, MINUTE, NOON, EventFactory
from tests.keep_going import always

STALE_AFTER = 10 * MINUTE


def a_due_reminder(*, due_at: datetime.datetime = NOON - MINUTE, offset: int = 60, **event: Any) -> EventReminder:
    """Pending; its event starts `offset` minutes after it and is an hour long, unless `event` says otherwise."""
    start_at = due_at + offset * MINUTE
    record: CalendarEvent = EventFactory.create(
        **{"start_at": start_at, "end_at": start_at + HOUR, "reminder_offsets_minutes": [offset], **event}
    )
    return EventReminder.objects.create(
        event=record,
        offset_minutes=offset,
        due_at=due_at,
        status=ReminderStatus.PENDING,
        created_at=record.created_at,
        updated_at=record.created_at,
    )


def a_reminder_of(origin: EventOrigin, **event: Any) -> EventReminder:
    """Due, of an event of that origin; a CRM deadline has no length."""
    if origin is EventOrigin.CRM_DEADLINE:
        event.setdefault("end_at", NOON - MINUTE + HOUR)
    return a_due_reminder(origin=origin, **event)


def a_job(now: Callable[[], datetime.datetime] = lambda: NOON) -> DispatchJob:
    return DispatchJob(stale_after=STALE_AFTER, now=now)


def dispatch(
    job: DispatchJob | None = None, *, limit: int = 500, keep_going: Callable[[], bool] = always
) -> DispatchResult:
    """One run at NOON."""
    return (job or a_job()).cycle(as_of=NOON, limit=limit, keep_going=keep_going)


def walk_indexes() -> None:
    """In this transaction, in the index's order, wherever one fits: what rolled-back tests leave makes it look dear."""
    sql.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")


def scan_tables() -> None:
    """In this transaction no index gives an order by the way: rows come as they lie in their table."""
    sql.execute("SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off")


def due_entries_read() -> int:
    """Of the index of due rows, so far in this transaction, in which nothing that died can be cleared away."""
    [(count,)] = sql.fetch("SELECT pg_stat_get_xact_tuples_returned('ix_event_reminders_pending_due_at'::regclass)")
    return int(count)


def statuses() -> list[tuple[str, str | None]]:
    """Status and skip reason of every reminder, by due_at."""
    return list(EventReminder.objects.order_by("due_at", "id").values_list("status", "skip_reason"))
