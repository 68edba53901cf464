"""Events carry their reminders along: rules 1 to 3, and the acceptance cases AC1, AC2, AC4, AC5 and A6."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from contracts.calendar import EventReason
from core import sql
from core.ids import new_id
from outbox.models import OutboxMessage
from pin_calendar import events
from pin_calendar.events import Event
from pin_calendar.models import CalendarEvent, EventOrigin
from reminders.models import EventReminder
from tests.factories import DAY, HOUR, MICROSECOND, MINUTE, NOON, TENANT

pytestmark = pytest.mark.django_db

Row = tuple[int, datetime.datetime, str, str | None]


def new_event(*, start_at: datetime.datetime, offsets: Sequence[int] = (1_440, 60)) -> Event:
    return events.new(
        tenant_id=TENANT,
        owner_user_id=new_id(),
        client_user_id=None,
        origin=EventOrigin.MANUAL,
        source_id=None,
        title="Показ",
        start_at=start_at,
        end_at=start_at + HOUR,
        time_zone="Europe/Riga",
        reminder_offsets_minutes=offsets,
    )


def an_event(*, start_at: datetime.datetime, offsets: Sequence[int] = (1_440, 60)) -> Event:
    """Written as of NOON, with what rule 1 makes of its offsets."""
    event = new_event(start_at=start_at, offsets=offsets)
    events.insert([event], as_of=NOON)
    return event


def edit(event: Event, *, as_of: datetime.datetime = NOON, **fields: Any) -> Event:
    change = events.edit(event, **fields)
    events.write([change], as_of=as_of)
    return change.after


def rows(event: Event, *statuses: str) -> list[Row]:
    """Offset, due, status, skip reason; in the order of dueness."""
    found = EventReminder.objects.filter(event_id=event.id).order_by("due_at", "status")
    return [
        (row.offset_minutes, row.due_at, row.status, row.skip_reason)
        for row in found
        if not statuses or row.status in statuses
    ]


def raw(event: Event) -> list[dict[str, Any]]:
    return [dict(row) for row in EventReminder.objects.filter(event_id=event.id).order_by("id").values()]


def mark_sent(event: Event, offset_minutes: int) -> None:
    row = EventReminder.objects.filter(event_id=event.id, offset_minutes=offset_minutes, status="Pending")
    row.update(status="Sent", sent_at=NOON)


# Rule 1


def test_ac1_an_event_3_days_ahead_has_a_row_a_day_and_a_row_an_hour_before() -> None:
    start = NOON + 3 * DAY

    event = an_event(start_at=start)

    assert rows(event) == [(1_440, start - DAY, "Pending", None), (60, start - HOUR, "Pending", None)]


def test_ac2_an_event_30_minutes_ahead_has_both_skipped_at_once_and_nothing_published() -> None:
    event = an_event(start_at=NOON + 30 * MINUTE)

    assert [row[2:] for row in rows(event)] == [("Skipped", "past")] * 2
    assert not OutboxMessage.objects.exists()


def test_three_hours_ahead_only_the_last_hours_reminder_is_pending() -> None:
    event = an_event(start_at=NOON + 3 * HOUR)

    assert rows(event, "Pending") == [(60, NOON + 2 * HOUR, "Pending", None)]


@pytest.mark.parametrize(("early", "status"), [(0 * MICROSECOND, "Pending"), (MICROSECOND, "Skipped")])
def test_due_at_this_very_instant_is_not_past(early: datetime.timedelta, status: str) -> None:
    event = an_event(start_at=NOON + HOUR - early, offsets=[60])

    assert [row[2] for row in rows(event)] == [status]


def test_a6_without_offsets_there_are_no_rows_and_the_event_lives_normally() -> None:
    event = an_event(start_at=NOON + DAY, offsets=[])

    moved = edit(event, start_at=NOON + 2 * DAY, end_at=NOON + 2 * DAY)
    events.write([events.complete(moved)], as_of=NOON)

    assert rows(event) == []
    assert CalendarEvent.objects.get().status == "Completed"


def test_offset_0_is_due_at_the_start_and_the_longest_four_weeks_before() -> None:
    start = NOON + 60 * DAY

    event = an_event(start_at=start, offsets=[0, 40_320])

    assert [row[1] for row in rows(event)] == [start - 28 * DAY, start]


def test_a_day_before_is_24_hours_before_also_where_the_clocks_change() -> None:
    """Riga leaves summer time on 27 October 2030 at 01:00 UTC; 1440 minutes are an exact duration."""
    start = datetime.datetime(2030, 10, 27, 9, tzinfo=datetime.UTC)

    event = an_event(start_at=start, offsets=[1_440])

    assert [row[1] for row in rows(event)] == [start - 24 * HOUR]


# Rule 2


def test_ac4_a_move_deletes_what_is_pending_and_materialises_from_the_new_start_and_sent_stays() -> None:
    event = an_event(start_at=NOON + 3 * DAY)
    mark_sent(event, 1_440)
    sent = [row for row in raw(event) if row["status"] == "Sent"]
    pending_ids = {row["id"] for row in raw(event) if row["status"] == "Pending"}
    start = NOON + 5 * DAY

    edit(event, start_at=start, end_at=start + HOUR)

    assert rows(event, "Pending") == [(1_440, start - DAY, "Pending", None), (60, start - HOUR, "Pending", None)]
    assert [row for row in raw(event) if row["status"] == "Sent"] == sent
    assert pending_ids.isdisjoint(row["id"] for row in raw(event))


def test_a_move_leaves_skipped_rows_as_history() -> None:
    event = an_event(start_at=NOON + 3 * HOUR)

    edit(event, start_at=NOON + 3 * DAY, end_at=NOON + 3 * DAY)

    assert [(row[0], row[2], row[3]) for row in rows(event)] == [
        (1_440, "Skipped", "past"),
        (1_440, "Pending", None),
        (60, "Pending", None),
    ]


def test_moved_into_the_past_nothing_is_pending() -> None:
    event = an_event(start_at=NOON + 3 * DAY)

    edit(event, start_at=NOON - DAY, end_at=NOON - DAY)

    assert rows(event, "Pending") == []


def test_other_offsets_are_materialised_anew() -> None:
    event = an_event(start_at=NOON + 3 * DAY)

    edit(event, reminder_offsets_minutes=[15])

    assert rows(event) == [(15, NOON + 3 * DAY - 15 * MINUTE, "Pending", None)]


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "Другой показ"},
        {"end_at": NOON + 4 * DAY},
        {"time_zone": "Asia/Omsk"},
        {"owner_user_id": new_id()},
        {"reminder_offsets_minutes": [60, 1_440]},
        {"start_at": NOON + 3 * DAY, "reminder_offsets_minutes": [1_440, 60]},
    ],
)
def test_a_change_of_nothing_relevant_touches_no_row(fields: dict[str, Any]) -> None:
    event = an_event(start_at=NOON + 3 * DAY)
    before = raw(event)

    edit(event, as_of=NOON + MINUTE, **fields)

    assert raw(event) == before


def test_inv_rem_1_every_pending_row_is_due_its_offset_before_the_start_after_any_edits() -> None:
    event = an_event(start_at=NOON + 3 * DAY)
    event = edit(event, start_at=NOON + 4 * DAY, end_at=NOON + 5 * DAY)
    event = edit(event, reminder_offsets_minutes=[0, 5, 600])
    edit(event, start_at=NOON + HOUR, end_at=NOON + 2 * HOUR)

    off = sql.fetch(
        """
        SELECT count(*) FILTER (WHERE due_at <> start_at - offset_minutes * interval '1 minute'), count(*)
        FROM event_reminders JOIN calendar_events ON calendar_events.id = event_id
        WHERE event_reminders.status = 'Pending'
        """
    )
    assert off == [(0, 2)]


# Rule 3


def test_ac5_cancelling_skips_what_is_pending_and_nothing_goes_out() -> None:
    event = an_event(start_at=NOON + 3 * DAY)
    mark_sent(event, 1_440)

    cancellation = events.cancel(event, reason=EventReason.OWNER_REQUEST, cancel_reason="Передумали")
    events.write([cancellation], as_of=NOON)

    assert [row[2:] for row in rows(event)] == [("Sent", None), ("Skipped", "event_cancelled")]
    assert not OutboxMessage.objects.filter(topic__contains="reminder").exists()


def test_completing_skips_what_is_pending() -> None:
    event = an_event(start_at=NOON + 3 * DAY)

    events.write([events.complete(event)], as_of=NOON)

    assert [row[2:] for row in rows(event)] == [("Skipped", "event_completed")] * 2


def test_500_events_cancelled_in_one_go_remind_nobody() -> None:
    many = [new_event(start_at=NOON + 3 * DAY, offsets=[60]) for _ in range(500)]
    events.insert(many, as_of=NOON)

    events.write([events.cancel(e, reason=EventReason.CRM, cancel_reason="") for e in many], as_of=NOON)

    found = sql.fetch("SELECT status, skip_reason, count(*) FROM event_reminders GROUP BY 1, 2")
    assert found == [("Skipped", "event_cancelled", 500)]
