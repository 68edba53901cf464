"""What a run of the dispatcher tells: log lines, metrics, job_runs, the preview, the command's result."""

import datetime
import math
from io import StringIO
from itertools import count

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from prometheus_client import CollectorRegistry

from core import clock, sql
from reminders.dispatch import Dispatch, DispatchResult
from reminders.models import EventReminder
from tests.appointments.state import everything
from tests.factories import DAY, HOUR, MINUTE, NOON
from tests.reminders.dispatching import a_due_reminder, a_job, dispatch, walk_indexes
from workers import loop
from workers.loop import Pace
from workers.models import JobRun
from workers.reporting import Reporter
from workers.stopping import Stop

pytestmark = pytest.mark.django_db


@pytest.fixture
def logged(capsys):
    """The lines of the log so far with this event."""
    return lambda event: [
        line for text in capsys.readouterr().err.splitlines() if (line := orjson.loads(text))["event"] == event
    ]


def test_a_sent_reminder_is_logged_with_its_ids_and_its_lag(logged):
    reminder = a_due_reminder(due_at=NOON - 90 * MINUTE / 60, title="Иван Петров")

    dispatch()

    [line] = logged("reminder-sent")
    assert {name: value for name, value in line.items() if name not in ("timestamp", "logger", "level")} == {
        "event": "reminder-sent",
        "reminderId": str(reminder.id),
        "eventId": str(reminder.event_id),
        "tenantId": str(reminder.event.tenant_id),
        "offsetMinutes": 60,
        "lagSeconds": 90.0,
    }


def test_a_skipped_reminder_is_logged_with_its_reason(logged):
    reminder = a_due_reminder(due_at=NOON - 2 * DAY)

    dispatch()

    [line] = logged("reminder-skipped")
    assert {name: value for name, value in line.items() if name not in ("timestamp", "logger", "level")} == {
        "event": "reminder-skipped",
        "reminderId": str(reminder.id),
        "eventId": str(reminder.event_id),
        "tenantId": str(reminder.event.tenant_id),
        "reason": "event_over",
    }


def test_the_metrics_have_their_names_and_values():
    registry = CollectorRegistry()
    job = a_job()
    reporter = Reporter(job, registry=registry)
    for seconds_late in (0.5, 59, 100, 1_000):
        a_due_reminder(due_at=NOON - seconds_late * MINUTE / 60)
    a_due_reminder(due_at=NOON - 2 * DAY)
    a_due_reminder(due_at=NOON - 3 * MINUTE, status="Cancelled")

    turn = loop.turn(
        job, pace=Pace(interval=60, batch_size=2, max_duration=30), stop=Stop(beat=lambda: None), reporter=reporter
    )

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"calendar_reminder{name}", labels)

    assert turn.result == DispatchResult(sent_count=4, skipped_count=1, failed_count=1)
    assert value("s_sent_total") == 4
    assert value("s_skipped_total", reason="event_over") == 1
    assert value("_dispatch_lag_seconds_count") == 4
    assert value("_dispatch_lag_seconds_sum") == 1_159.5
    buckets = {bound: value("_dispatch_lag_seconds_bucket", le=bound) for bound in ("1.0", "60.0", "120.0", "900.0")}
    assert buckets == {"1.0": 1, "60.0": 2, "120.0": 3, "900.0": 3}
    assert value("_dispatch_errors_total") == 1
    assert value("_dispatch_cycle_duration_seconds_count") == 1
    assert value("_dispatch_last_success_timestamp_seconds") == pytest.approx(turn.as_of.timestamp(), abs=60)
    run = JobRun.objects.get()
    assert (run.job, run.outcome, run.counts) == (
        "reminder-dispatch",
        "Succeeded",
        {"sentCount": 4, "skippedCount": 1, "skippedLockedCount": 0, "failedCount": 1},
    )


def test_the_lag_has_the_buckets_of_the_alerts_and_finer_ones_within_a_minute():
    registry = CollectorRegistry()
    a_job().make_metrics(registry)

    [lag] = [family for family in registry.collect() if family.name == "calendar_reminder_dispatch_lag_seconds"]
    bounds = [float(sample.labels["le"]) for sample in lag.samples if sample.name.endswith("_bucket")]
    assert bounds == [1, 2, 5, 10, 15, 30, 45, 60, 90, 120, 300, 900, math.inf]


@pytest.mark.parametrize(("due_at", "age"), [(NOON - 5 * MINUTE, 300.0), (NOON + MINUTE, 0.0), (None, 0.0)])
def test_the_age_of_the_backlog_is_that_of_its_oldest_row(due_at, age):
    registry = CollectorRegistry()
    metrics = a_job().make_metrics(registry)
    if due_at:
        a_due_reminder(due_at=due_at)
        a_due_reminder(due_at=due_at + MINUTE)

    metrics.refresh(NOON)

    assert registry.get_sample_value("calendar_reminder_dispatch_backlog_oldest_age_seconds") == age


def test_what_was_sent_is_counted_also_when_the_run_breaks_off():
    registry = CollectorRegistry()
    job = a_job()
    job.make_metrics(registry)
    a_due_reminder()
    chunks = count()

    def keep_going() -> bool:
        if next(chunks):
            raise OSError("the network is away")
        return True

    with pytest.raises(OSError, match="away"):
        dispatch(job, keep_going=keep_going)
    assert registry.get_sample_value("calendar_reminders_sent_total") == 1


def test_the_preview_says_what_a_run_would_do_and_changes_nothing():
    over = a_due_reminder(due_at=NOON - 2 * DAY)
    broken = a_due_reminder(due_at=NOON - HOUR, status="Cancelled")
    sent = a_due_reminder()
    a_due_reminder(due_at=NOON + HOUR)
    before = everything()

    assert list(a_job().preview(as_of=NOON, limit=10)) == [
        Dispatch(over.id, over.event_id, over.due_at, "event_over"),
        Dispatch(broken.id, broken.event_id, broken.due_at, "inconsistent"),
        Dispatch(sent.id, sent.event_id, sent.due_at, "sent"),
    ]
    assert len(list(a_job().preview(as_of=NOON, limit=1))) == 1
    assert everything() == before


def test_the_commands_dry_run_prints_a_line_a_reminder():
    reminder = a_due_reminder()
    out = StringIO()

    call_command("run_reminder_dispatch", "--dry-run", "--as-of", "2030-03-14T12:00:00Z", stdout=out)

    assert [orjson.loads(line) for line in out.getvalue().splitlines()] == [
        {
            "reminderId": str(reminder.id),
            "eventId": str(reminder.event_id),
            "dueAt": "2030-03-14T11:59:00.000000Z",
            "outcome": "sent",
        }
    ]


def test_the_command_picks_up_what_is_due_now(monkeypatch):
    now = clock.now()
    for n in range(3):
        a_due_reminder(due_at=now - (n + 1) * MINUTE)
    out = StringIO()

    call_command("run_reminder_dispatch", "--once", "--batch-size", "2", stdout=out)

    line = orjson.loads(out.getvalue())
    assert (line["sentCount"], line["skippedCount"], line["failedCount"]) == (3, 0, 0)
    sent_at = EventReminder.objects.values_list("sent_at", flat=True)
    assert all(instant and now <= instant <= clock.now() for instant in sent_at)


def test_the_command_takes_its_pace_and_its_stale_limit_from_the_settings():
    from reminders.management.commands.run_reminder_dispatch import Command

    assert Command().default_pace() == Pace(interval=60, batch_size=500, max_duration=300)
    assert Command().make_job({}).stale_after == datetime.timedelta(minutes=10)


def test_a_bad_flag_is_refused_by_name():
    with pytest.raises((CommandError, SystemExit)) as refused:
        call_command("run_reminder_dispatch", "--batch-size", "0")

    assert "--batch-size" in str(refused.value)


def _history(rows: int) -> None:
    """Sent reminders of long ago, eight an event, as many as a busy year leaves."""
    sql.execute(
        """
        WITH event AS (
            INSERT INTO calendar_events (id, tenant_id, owner_user_id, origin, title, start_at, end_at, time_zone,
                   reminder_offsets_minutes, status, cancel_reason, version, created_at, updated_at)
            SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'Manual', '', start_at, start_at, 'UTC',
                   '{}', 'Completed', '', 2, start_at, start_at
            FROM (SELECT %s - n * interval '1 minute' AS start_at FROM generate_series(1, %s / 8) AS n) AS made
            RETURNING id, start_at
        )
        INSERT INTO event_reminders (id, event_id, offset_minutes, due_at, status, sent_at, created_at, updated_at)
        SELECT gen_random_uuid(), id, minutes, start_at, 'Sent', start_at, start_at, start_at
        FROM event CROSS JOIN generate_series(1, 8) AS minutes
        """,
        [NOON - DAY, rows],
    )


def _plans(work) -> list[str]:
    """The plans of the statements that `work` runs on the reminders' table."""
    seen: list[str] = []

    def explain(execute, statement, params, many, context):
        if statement.strip().startswith("SELECT") and "event_reminders" in statement:
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {statement}", params)
                seen.append("\n".join(row[0] for row in cursor.fetchall()))
        return execute(statement, params, many, context)

    with connection.execute_wrapper(explain):
        work()
    return seen


# While few are Pending, the planner may count them by either.
_OF_PENDING_ROWS_ALONE = ("ix_event_reminders_pending_due_at", "uq_event_reminders_one_pending_an_offset")


@pytest.mark.parametrize("is_analysed", [True, False])
def test_every_statement_finds_the_due_rows_by_a_partial_index(is_analysed):
    _history(20_000)
    for n in range(20):
        a_due_reminder(due_at=NOON - n * MINUTE - MINUTE)
    if is_analysed:
        sql.execute("ANALYZE calendar_events, event_reminders")
    walk_indexes()
    job = a_job()
    metrics = job.make_metrics(CollectorRegistry())

    def work() -> None:
        list(job.preview(as_of=NOON, limit=5))
        dispatch(job, limit=10)
        metrics.refresh(NOON)

    plans = _plans(work)

    assert len(plans) > 5
    for plan in plans:
        assert any(index in plan for index in _OF_PENDING_ROWS_ALONE), plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan


def test_a_pause_that_makes_late_reminders_stale_is_refused_at_start():
    with pytest.raises(CommandError, match="two such ticks") as caught:
        call_command("run_reminder_dispatch", "--once", "--interval", "301")

    assert caught.value.returncode == 2
