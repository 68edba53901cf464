"""One bad row can't hold the others back, and what is in another hand is left to it."""

import datetime
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import orjson
import pytest
from django.db import connection, connections, transaction

from core import sql
from outbox.models import OutboxMessage
from pin_calendar import events
from pin_calendar.models import CalendarEvent
from reminders.dispatch import DispatchResult
from reminders.models import EventReminder
from tests.factories import DAY, MICROSECOND, MINUTE, NOON
from tests.keep_going import always
from tests.reminders.dispatching import a_due_reminder, a_job, dispatch
from workers.chunks import RETRIES_A_CYCLE

pytestmark = pytest.mark.django_db

# Rows that another session is to see, or a session that is lost.
committed = pytest.mark.django_db(transaction=True)


def many_due(number: int) -> list[EventReminder]:
    """Of one event each, a second apart, the first being the oldest."""
    return [a_due_reminder(due_at=NOON - (number - n) * MINUTE / 60 - MINUTE) for n in range(number)]


def forbid(reminder: EventReminder, *, table: str = "event_reminders") -> None:
    """From now on the database refuses to change that row, or to take in its message."""
    condition = {
        "event_reminders": f"NEW.id = '{reminder.id}'",
        "outbox_messages": f"NEW.dedup_key = 'pin.calendar.reminder-due.v1:{reminder.id}'",
    }[table]
    event = "UPDATE ON event_reminders" if table == "event_reminders" else "INSERT ON outbox_messages"
    name = f"forbid_{reminder.id.hex}"
    sql.execute(
        f"""
        CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF {condition} THEN RAISE 'poison'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW EXECUTE FUNCTION {name}()
        """
    )


@contextmanager
def elsewhere(statement: str, *params: object) -> Iterator[None]:
    """Another session holds what the statement locks for as long as the block runs."""
    has_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                sql.execute(statement, params)
                has_locked.set()
                may_end.wait(10)
        finally:
            connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert has_locked.wait(10)
        yield
    finally:
        may_end.set()
        holder.join()


@pytest.mark.parametrize("table", ["event_reminders", "outbox_messages"])
def test_a_row_that_the_database_refuses_first_of_many_is_left_alone(table, capsys):
    poison, *healthy = many_due(40)
    forbid(poison, table=table)
    job = a_job()

    assert dispatch(job) == DispatchResult(sent_count=39, failed_count=1)

    assert set(EventReminder.objects.filter(status="Pending").values_list("id", flat=True)) == {poison.id}
    assert OutboxMessage.objects.count() == len(healthy)
    [line] = [
        fact for text in capsys.readouterr().err.splitlines() if (fact := orjson.loads(text))["event"] == "item failed"
    ]
    assert (line["reminderId"], line["level"]) == (str(poison.id), "error")
    assert "poison" in line["exception"]
    # The next run likewise, after what has become due since.
    newer = a_due_reminder()
    assert dispatch(job) == DispatchResult(sent_count=1, failed_count=1)
    newer.refresh_from_db()
    assert newer.status == "Sent"


def test_a_row_of_a_broken_state_costs_the_others_no_rollback():
    broken, *_ = many_due(20)
    sql.execute("UPDATE calendar_events SET status = 'Cancelled' WHERE id = %s", [broken.event_id])

    assert dispatch() == DispatchResult(sent_count=19, failed_count=1)
    assert len(set(OutboxMessage.objects.values_list("created_at"))) == 1


def test_a_corrupt_time_zone_hurts_nobody():
    odd, *_ = many_due(3)
    sql.execute("UPDATE calendar_events SET time_zone = 'Mars/Olympus' WHERE id = %s", [odd.event_id])

    assert dispatch() == DispatchResult(sent_count=3)


def test_a_healed_row_goes_out_in_the_next_run():
    poison = a_due_reminder()
    forbid(poison)
    job = a_job()
    assert dispatch(job) == DispatchResult(failed_count=1)
    sql.execute(f"DROP FUNCTION forbid_{poison.id.hex} CASCADE")

    assert dispatch(job) == DispatchResult(sent_count=1)
    assert job._failed_before == ()


def test_a_retried_row_is_sent_as_of_a_reading_of_its_own():
    poison = a_due_reminder()
    forbid(poison)
    readings = count(1)
    job = a_job(now=lambda: NOON + next(readings) * MICROSECOND)
    dispatch(job)
    sql.execute(f"DROP FUNCTION forbid_{poison.id.hex} CASCADE")
    before = next(readings)

    dispatch(job)

    poison.refresh_from_db()
    # One reading at the start, one for each of two passes that find nothing more, then its own.
    assert poison.sent_at == NOON + (before + 4) * MICROSECOND


def test_many_failing_rows_are_retried_a_few_a_run_and_in_turn():
    broken = many_due(RETRIES_A_CYCLE + 10)
    sql.execute("UPDATE calendar_events SET status = 'Completed'")
    job = a_job()
    assert dispatch(job).failed_count == len(broken)

    assert dispatch(job).failed_count == RETRIES_A_CYCLE
    sql.execute("UPDATE calendar_events SET status = 'Scheduled'")
    assert dispatch(job).sent_count == RETRIES_A_CYCLE
    assert dispatch(job).sent_count == 10


def test_a_stop_ends_the_isolation_of_bad_rows():
    for reminder in many_due(8):
        forbid(reminder)
    answers = iter([True] * 4)

    result = dispatch(keep_going=lambda: next(answers, False))

    assert result.failed_count < 8
    assert EventReminder.objects.filter(status="Pending").count() == 8


@committed
def test_a_lost_session_is_no_rows_fault():
    a_due_reminder()
    job = a_job()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    terminator = threading.Thread(target=_terminate, args=(pid,))
    terminator.start()
    terminator.join()
    with pytest.raises(Exception, match=r"terminat|closed|lost"):
        dispatch(job)
    connection.close()
    assert dispatch(job) == DispatchResult(sent_count=1)


def _terminate(pid: int) -> None:
    try:
        sql.fetch("SELECT pg_terminate_backend(%s, 1000)", [pid])
    finally:
        connections.close_all()


@committed
@pytest.mark.parametrize(
    "lock",
    [
        "SELECT 1 FROM calendar_events WHERE id = %s FOR NO KEY UPDATE",
        "SELECT 1 FROM event_reminders WHERE event_id = %s FOR NO KEY UPDATE",
    ],
)
def test_a_row_in_another_hand_is_skipped_without_waiting_and_counted(lock):
    held, *_ = many_due(3)

    with elsewhere(lock, held.event_id):
        assert dispatch() == DispatchResult(sent_count=2, skipped_locked_count=1)

    held.refresh_from_db()
    assert held.status == "Pending"
    assert dispatch() == DispatchResult(sent_count=1)


@committed
@pytest.mark.parametrize(("others", "are_over"), [(0, False), (4, False), (4, True)])
def test_a_row_in_another_hand_is_revisited_before_the_run_ends(others, are_over):
    held, *_ = many_due(others + 1)
    if are_over:
        CalendarEvent.objects.exclude(id=held.event_id).update(start_at=NOON - 2 * DAY, end_at=NOON - DAY)
    readings = count(1)
    with ExitStack() as stack:
        stack.enter_context(elsewhere("SELECT 1 FROM calendar_events WHERE id = %s FOR NO KEY UPDATE", held.event_id))

        def now() -> datetime.datetime:
            # One reading before the first pass, one a claim; its last claim finds nothing more.
            if next(readings) == others + 3:
                stack.close()
            return NOON

        result = dispatch(a_job(now=now), limit=1)

    skipped = others if are_over else 0
    assert result == DispatchResult(sent_count=others + 1 - skipped, skipped_count=skipped)


def test_an_event_that_was_moved_is_not_told_of_its_old_start():
    reminder = a_due_reminder()
    with transaction.atomic():
        event = events.lock(reminder.event_id)
        assert event is not None
        events.write(
            [events.move(event, start_at=NOON + 600 * MINUTE, end_at=NOON + 660 * MINUTE, time_zone="Europe/Riga")],
            as_of=NOON,
        )

    assert dispatch() == DispatchResult()
    assert list(EventReminder.objects.values_list("due_at", "status")) == [(NOON + 540 * MINUTE, "Pending")]


def test_both_rows_of_one_event_go_out_together_in_the_order_of_their_due_times():
    later = a_due_reminder(offset=60)
    earlier = EventReminder.objects.create(
        event=later.event,
        offset_minutes=120,
        due_at=later.due_at - 60 * MINUTE,
        status="Pending",
        created_at=later.created_at,
        updated_at=later.created_at,
    )

    assert dispatch(keep_going=always) == DispatchResult(sent_count=2)
    dedup_keys = OutboxMessage.objects.order_by("id").values_list("dedup_key", flat=True)
    assert [key.rpartition(":")[2] for key in dedup_keys] == [str(earlier.id), str(later.id)]
