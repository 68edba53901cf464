"""Rules 1 to 3 of reminders: materialised, rematerialised, silenced."""

import datetime
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import pytest

from core import sql
from core.errors import Inconsistent
from core.ids import new_id
from reminders import schedule
from reminders.models import EventReminder, SkipReason
from reminders.schedule import Timetable
from tests import bulk
from tests.factories import DAY, HOUR, MICROSECOND, MINUTE, NOON, EventFactory
from tests.reminders.dispatching import a_due_reminder, due_entries_read


def timetable(start_at: datetime.datetime, *offsets: int) -> Timetable:
    return Timetable(EventFactory.create(start_at=start_at).id, start_at, offsets)


def rows() -> list[tuple[int, datetime.datetime, str, str | None]]:
    return list(
        EventReminder.objects.order_by("-offset_minutes").values_list(
            "offset_minutes", "due_at", "status", "skip_reason"
        )
    )


@pytest.mark.django_db
def test_ac1_an_event_three_days_ahead_has_two_pending_rows():
    start_at = NOON + 3 * DAY
    schedule.materialise([timetable(start_at, 1_440, 60)], as_of=NOON)

    assert rows() == [
        (1_440, start_at - 24 * HOUR, "Pending", None),
        (60, start_at - HOUR, "Pending", None),
    ]


@pytest.mark.django_db
def test_ac2_an_event_30_minutes_ahead_has_only_skipped_rows():
    wanted = timetable(NOON + 30 * MINUTE, 1_440, 60)

    schedule.materialise([wanted], as_of=NOON)

    assert [(status, reason) for _, _, status, reason in rows()] == [("Skipped", "past")] * 2
    assert schedule.is_silent(wanted, as_of=NOON)


@pytest.mark.django_db
def test_booked_three_hours_ahead_only_the_60_minute_one_is_left():
    wanted = timetable(NOON + 3 * HOUR, 1_440, 60)

    schedule.materialise([wanted], as_of=NOON)

    assert [(offset, status) for offset, _, status, _ in rows()] == [(1_440, "Skipped"), (60, "Pending")]
    assert not schedule.is_silent(wanted, as_of=NOON)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("ahead", "status"),
    [
        (HOUR + MICROSECOND, "Pending"),
        (HOUR, "Pending"),
        (HOUR - MICROSECOND, "Skipped"),
    ],
)
def test_a_row_due_at_this_very_instant_is_not_past(ahead, status):
    wanted = timetable(NOON + ahead, 60)

    schedule.materialise([wanted], as_of=NOON)

    assert [row[2] for row in rows()] == [status]
    assert schedule.is_silent(wanted, as_of=NOON) is (status == "Skipped")


@pytest.mark.django_db
def test_a6_empty_offsets_make_no_rows_and_no_silence():
    wanted = timetable(NOON + 3 * DAY)

    schedule.materialise([wanted], as_of=NOON)
    schedule.rematerialise([wanted], as_of=NOON)

    assert rows() == []
    assert not schedule.is_silent(wanted, as_of=NOON)


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "Europe/Riga", "Asia/Kolkata", "America/New_York"])
def test_the_end_of_dst_moves_no_due_at_and_1440_minutes_is_an_exact_duration(zone):
    start_at = datetime.datetime(2030, 10, 27, 8, tzinfo=datetime.UTC)  # in Riga it is winter since 01:00 UTC

    schedule.materialise([timetable(start_at.astimezone(ZoneInfo(zone)), 1_440, 480, 0)], as_of=NOON)

    assert [(offset, due_at) for offset, due_at, *_ in rows()] == [
        (1_440, datetime.datetime(2030, 10, 26, 8, tzinfo=datetime.UTC)),
        (480, datetime.datetime(2030, 10, 27, 0, tzinfo=datetime.UTC)),
        (0, start_at),
    ]


@pytest.mark.django_db
def test_materialised_anew_pending_rows_go_and_history_stays():
    wanted = timetable(NOON + 3 * DAY, 1_440, 60, 30)
    schedule.materialise([wanted], as_of=NOON)
    sql.execute("UPDATE event_reminders SET status = 'Sent', sent_at = %s WHERE offset_minutes = 1440", [NOON])
    sql.execute("UPDATE event_reminders SET status = 'Skipped', skip_reason = 'past' WHERE offset_minutes = 30")
    history = list(EventReminder.objects.exclude(status="Pending").order_by("id").values())
    [pending] = EventReminder.objects.filter(status="Pending")

    schedule.rematerialise([Timetable(wanted.event_id, NOON + 5 * DAY, (1_440, 60))], as_of=NOON + HOUR)

    assert list(EventReminder.objects.exclude(status="Pending").order_by("id").values()) == history
    anew = EventReminder.objects.filter(status="Pending")
    assert {row.offset_minutes: row.due_at for row in anew} == {1_440: NOON + 4 * DAY, 60: NOON + 5 * DAY - HOUR}
    assert not EventReminder.objects.filter(id=pending.id).exists()


@pytest.mark.django_db
def test_silencing_takes_pending_rows_of_these_events_alone():
    silenced, other = timetable(NOON + 3 * DAY, 1_440, 60), timetable(NOON + 3 * DAY, 60)
    schedule.materialise([silenced, other], as_of=NOON)
    sql.execute(
        "UPDATE event_reminders SET status = 'Sent', sent_at = %s WHERE offset_minutes = 1440",
        [NOON],
    )

    schedule.skip([silenced.event_id], reason=SkipReason.EVENT_CANCELLED, as_of=NOON + HOUR)

    assert sorted(EventReminder.objects.values_list("event_id", "status", "skip_reason", "updated_at")) == sorted(
        [
            (silenced.event_id, "Sent", None, NOON),
            (silenced.event_id, "Skipped", "event_cancelled", NOON + HOUR),
            (other.event_id, "Pending", None, NOON),
        ]
    )


@pytest.mark.django_db
@pytest.mark.parametrize("mark", [schedule.mark_sent, schedule.mark_stale])
def test_a_row_that_is_not_pending_any_more_is_not_marked(mark):
    schedule.materialise([timetable(NOON + 3 * DAY, 60)], as_of=NOON)
    [reminder] = EventReminder.objects.all()
    mark([reminder.id], as_of=NOON)
    reminder.refresh_from_db()

    with pytest.raises(Inconsistent, match="2 of 2 reminders changed under their lock"):
        mark([reminder.id, new_id()], as_of=NOON + HOUR)


def _hold(reminders: Sequence[EventReminder]) -> None:
    held = schedule.IS_HELD.format(event_id="event.id")
    events = [reminder.event_id for reminder in reminders]
    assert all(
        all_of_it
        for (all_of_it,) in sql.fetch(f"SELECT {held} FROM calendar_events AS event WHERE id = ANY(%s)", [events])
    )


def _mark_sent(reminders: Sequence[EventReminder]) -> None:
    schedule.mark_sent([reminder.id for reminder in reminders], as_of=NOON)


def _skip(reminders: Sequence[EventReminder]) -> None:
    schedule.skip([reminder.event_id for reminder in reminders], reason=SkipReason.EVENT_CANCELLED, as_of=NOON)


def _rematerialise(reminders: Sequence[EventReminder]) -> None:
    schedule.rematerialise([Timetable(reminder.event_id, NOON, ()) for reminder in reminders], as_of=NOON)


@pytest.mark.django_db
@pytest.mark.parametrize("work", [_hold, _mark_sent, _skip, _rematerialise])
def test_rows_known_by_event_or_id_are_found_by_it_also_when_the_planner_has_heard_of_none_pending(work):
    sql.execute("TRUNCATE calendar_events CASCADE")  # and with it what rolled-back tests left in tables and indexes
    bulk.overdue_appointments(5_000, as_of=NOON)
    sql.execute("UPDATE event_reminders SET status = 'Skipped', skip_reason = 'past'; SET CONSTRAINTS ALL IMMEDIATE")
    sql.execute("REINDEX TABLE event_reminders; ANALYZE event_reminders, calendar_events")
    due = [a_due_reminder() for _ in range(50)]
    before = due_entries_read()

    work(due)

    assert due_entries_read() == before


@pytest.mark.parametrize(
    ("start_at", "offsets", "is_like"),
    [
        (NOON, (1_440, 60), True),
        (NOON, (60, 1_440), True),
        (NOON.astimezone(ZoneInfo("Europe/Riga")), (1_440, 60), True),
        (NOON, (1_440,), False),
        (NOON + MICROSECOND, (1_440, 60), False),
    ],
)
def test_timetables_are_alike_when_the_same_reminders_follow(start_at, offsets, is_like):
    event_id = new_id()

    assert Timetable(event_id, NOON, (1_440, 60)).is_like(Timetable(event_id, start_at, offsets)) is is_like
