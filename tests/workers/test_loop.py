"""The loop on a clock of its own: ticks, budget, drain, back-off; and what a cycle leaves behind."""

import datetime
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from django.db import DataError, OperationalError, transaction
from prometheus_client import CollectorRegistry

from core import clock, correlation, sql
from core.ids import new_id
from tests.workers.fakes import Doing, FakeJob, FakeResult, FakeTime, execute
from workers import loop, models
from workers.job import CycleResult, JobUnavailable, KeepGoing
from workers.loop import Pace
from workers.models import JobRun, Outcome
from workers.reporting import Reporter, Turn, sentence
from workers.stopping import Stop

pytestmark = pytest.mark.django_db

MINUTELY = Pace(interval=60, batch_size=10, max_duration=30)


def _run(job: FakeJob, *, time: FakeTime, pace: Pace = MINUTELY) -> CollectorRegistry:
    registry = CollectorRegistry()
    loop.run(
        job,
        pace=pace,
        stop=time.stop,
        reporter=Reporter(job, registry=registry),
        monotonic=time.monotonic,
        jitter=lambda least, most: most,
    )
    return registry


def _turn(job: FakeJob, *, pace: Pace = MINUTELY, stop: Stop | None = None) -> tuple[Any, CollectorRegistry]:
    registry = CollectorRegistry()
    stop = stop or FakeTime(until=1e9).stop
    return loop.turn(job, pace=pace, stop=stop, reporter=Reporter(job, registry=registry)), registry


def _starts(
    time: FakeTime, *, taking: Callable[[int], float] = lambda _n: 0.0, ends: Callable[[int], Any] = lambda _n: None
) -> tuple[list[float], Doing]:
    """A list that gets the instant of each cycle's start, and a doing that takes time and ends in a certain way."""
    starts: list[float] = []

    def doing(_keep_going: KeepGoing) -> FakeResult | None:
        starts.append(time.elapsed)
        time.pass_by(taking(len(starts)))
        outcome = ends(len(starts))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return starts, doing


def test_a_cycle_starts_at_once_and_then_every_interval() -> None:
    time = FakeTime(until=200)
    starts, doing = _starts(time, taking=lambda _n: 7.0)

    _run(FakeJob(doing), time=time)

    assert starts == [0, 60, 120, 180]


def test_ticks_missed_by_a_long_cycle_are_skipped_not_queued() -> None:
    time = FakeTime(until=400)
    starts, doing = _starts(time, taking=lambda n: 130.0 if n == 2 else 1.0)

    _run(FakeJob(doing), time=time)

    assert starts == [0, 60, 240, 300, 360]


def test_a_tick_during_a_cycle_does_not_start_another() -> None:
    time = FakeTime(until=500)
    running: list[bool] = []

    def overlapping(_keep_going: KeepGoing) -> None:
        assert not running
        running.append(True)
        time.pass_by(100)
        running.pop()

    registry = _run(FakeJob(overlapping), time=time)

    assert registry.get_sample_value("fake_errors_total") == 0


def test_drain_starts_the_next_cycle_at_once_while_the_batch_was_full() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, taking=lambda _n: 2.0, ends=lambda n: FakeResult(is_batch_full=n < 3))

    _run(FakeJob(doing), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True))

    assert starts == [0, 2, 4, 60]


def test_drain_goes_on_at_once_when_a_cycle_ran_out_of_time() -> None:
    time = FakeTime(until=100)

    def until_told_to_stop(keep_going: KeepGoing) -> FakeResult | None:
        starts.append(time.elapsed)
        if len(starts) < 3:
            time.pass_by(31)
        keep_going()
        return FakeResult()

    starts: list[float] = []
    _run(FakeJob(until_told_to_stop), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True))

    assert starts[:3] == [0, 31, 62]


def test_without_drain_a_full_batch_waits_for_the_tick() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, ends=lambda _n: FakeResult(is_batch_full=True))

    _run(FakeJob(doing), time=time)

    assert starts == [0, 60]


def test_drain_does_not_spin_on_a_batch_in_which_everything_failed() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, ends=lambda _n: FakeResult(is_batch_full=True, failed_count=10))

    _run(FakeJob(doing), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True))

    assert starts == [0, 60]


@pytest.mark.parametrize(
    "error", [OperationalError("away"), OSError("no route"), JobUnavailable("broker"), KeyError("defect")]
)
def test_no_error_of_a_cycle_ends_the_loop(error: Exception) -> None:
    time = FakeTime(until=130)
    starts, doing = _starts(time, ends=lambda n: error if n == 1 else None)

    registry = _run(FakeJob(doing), time=time)

    assert starts == [0, 60, 120]
    assert registry.get_sample_value("fake_errors_total") == 1


def test_back_off_doubles_up_to_thirty_seconds_and_ends_with_a_success() -> None:
    time = FakeTime(until=115)
    starts, doing = _starts(time, ends=lambda n: JobUnavailable("broker") if n <= 6 else None)

    _run(FakeJob(doing), time=time, pace=Pace(interval=1, batch_size=10, max_duration=30))

    pauses = [round(later - earlier, 3) for earlier, later in pairwise(starts)]
    assert pauses[:8] == [2, 4, 8, 16, 30, 30, 1, 1]


def test_back_off_beats_all_the_while() -> None:
    time = FakeTime(until=59)

    def away(_keep_going: KeepGoing) -> None:
        raise JobUnavailable("broker")

    _run(FakeJob(away), time=time)

    assert time.beats >= 59 / 0.1


def test_a_job_that_knows_of_work_is_not_kept_waiting() -> None:
    time = FakeTime(until=30)
    starts, doing = _starts(time)

    class Woken(FakeJob):
        def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
            stop.wait(min(seconds, 10.0))

    _run(Woken(doing), time=time)

    assert starts == [0, 10, 20]


def test_a_job_whose_waiting_breaks_is_backed_off() -> None:
    time = FakeTime(until=130)
    starts, doing = _starts(time)

    class Deaf(FakeJob):
        def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
            raise OSError("the connection that listens is gone")

    registry = _run(Deaf(doing), time=time)

    assert starts == [0, 60, 120]
    assert registry.get_sample_value("fake_errors_total") == 3


def test_past_its_time_a_cycle_is_told_to_end_and_the_overrun_is_counted() -> None:
    time = FakeTime(until=1_000)
    items = 0

    def slow(keep_going: KeepGoing) -> FakeResult:
        nonlocal items
        while keep_going():
            items += 1
            time.pass_by(10)
        return FakeResult(done_count=items)

    job, registry = FakeJob(slow), CollectorRegistry()
    done = loop.turn(
        job, pace=MINUTELY, stop=time.stop, reporter=Reporter(job, registry=registry), monotonic=time.monotonic
    )

    assert (items, done.outcome, done.ran_out_of_time) == (3, Outcome.SUCCEEDED, True)
    assert registry.get_sample_value("fake_overruns_total") == 1


def test_asking_to_keep_going_is_a_sign_of_life() -> None:
    time = FakeTime(until=1_000)

    def ask(keep_going: KeepGoing) -> None:
        before = time.beats
        keep_going()
        assert time.beats == before + 1

    done, _registry = _turn(FakeJob(ask), stop=time.stop)

    assert done.outcome is Outcome.SUCCEEDED


def test_the_run_id_is_the_correlation_id_and_the_clock_is_read_once() -> None:
    seen: dict[str, Any] = {}

    class Curious(FakeJob):
        def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> FakeResult:
            seen.update(as_of=as_of, limit=limit, correlation_id=correlation.correlation_id())
            return FakeResult()

    done, _registry = _turn(Curious(lambda _keep_going: None))

    assert seen == {"as_of": done.as_of, "limit": 10, "correlation_id": done.run_id}


def test_a_cycle_leaves_a_row() -> None:
    done, registry = _turn(FakeJob(lambda _keep_going: FakeResult(done_count=3, failed_count=2)))

    run = JobRun.objects.get(id=done.run_id)
    assert (run.job, run.outcome, run.error) == ("fake", Outcome.SUCCEEDED, "")
    assert (run.as_of, run.started_at) == (done.as_of, done.as_of)
    assert run.counts == {"doneCount": 3, "failedCount": 2}
    assert run.instance.rpartition(":")[2].isdigit()
    assert registry.get_sample_value("fake_errors_total") == 2
    assert registry.get_sample_value("fake_items_total") == 3
    assert registry.get_sample_value("fake_last_success_timestamp_seconds") == pytest.approx(
        clock.now().timestamp(), abs=60
    )


def test_a_failed_cycle_leaves_a_row_that_says_why_in_one_line() -> None:
    def fail(_keep_going: KeepGoing) -> None:
        raise OperationalError("server closed the connection\nDETAIL: of a row")

    done, registry = _turn(FakeJob(fail))

    run = JobRun.objects.get(id=done.run_id)
    assert (run.outcome, run.error) == (Outcome.FAILED, "OperationalError: server closed the connection")
    assert registry.get_sample_value("fake_errors_total") == 1
    assert registry.get_sample_value("fake_last_success_timestamp_seconds") == 0


def test_idle_cycles_of_a_busy_ticker_leave_no_row() -> None:
    class Ticker(FakeJob):
        records_idle_cycles = False

    _turn(Ticker(lambda _keep_going: FakeResult()))
    assert not JobRun.objects.exists()

    _turn(Ticker(lambda _keep_going: FakeResult(done_count=1)))
    assert JobRun.objects.count() == 1


def test_cycles_of_a_busy_ticker_share_a_row_for_ten_seconds() -> None:
    class Ticker(FakeJob):
        records_idle_cycles = False

    job = Ticker(lambda _keep_going: FakeResult(done_count=3))
    reporter = Reporter(job, registry=CollectorRegistry())
    start = clock.now()

    def report(seconds: float, *, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        as_of = start + datetime.timedelta(seconds=seconds)
        result = FakeResult(done_count=3, failed_count=1)
        reporter.finished(Turn(run_id=new_id(), as_of=as_of, duration_seconds=0.2, outcome=outcome, result=result))

    for seconds in (0, 4, 9.9, 10, 11):
        report(seconds)
    report(12, outcome=Outcome.FAILED)
    report(13)

    rows = JobRun.objects.order_by("started_at").values_list("counts", "duration_ms", "outcome")
    assert list(rows) == [
        ({"cycles": 3, "doneCount": 9, "failedCount": 3}, 600, Outcome.SUCCEEDED),
        ({"cycles": 2, "doneCount": 6, "failedCount": 2}, 400, Outcome.SUCCEEDED),
        ({"doneCount": 3, "failedCount": 1}, 200, Outcome.FAILED),
        ({"doneCount": 3, "failedCount": 1}, 200, Outcome.SUCCEEDED),
    ]


def test_a_shared_row_that_is_gone_is_followed_by_a_new_one() -> None:
    class Ticker(FakeJob):
        records_idle_cycles = False

    job = Ticker(lambda _keep_going: FakeResult(done_count=1))
    reporter, stop = Reporter(job, registry=CollectorRegistry()), FakeTime(until=1e9).stop

    loop.turn(job, pace=MINUTELY, stop=stop, reporter=reporter)
    JobRun.objects.all().delete()
    last = loop.turn(job, pace=MINUTELY, stop=stop, reporter=reporter)

    assert [run.id for run in JobRun.objects.all()] == [last.run_id]


def test_a_row_or_a_gauge_that_cannot_be_had_does_not_fail_the_cycle() -> None:
    with mock.patch.object(JobRun, "save", side_effect=OperationalError("away")):
        done, _registry = _turn(FakeJob(lambda _keep_going: FakeResult(done_count=1)))

    assert done.outcome is Outcome.SUCCEEDED


def test_metrics_are_there_before_the_first_cycle() -> None:
    registry = CollectorRegistry()
    Reporter(FakeJob(lambda _keep_going: None), registry=registry)

    assert registry.get_sample_value("fake_errors_total") == 0
    assert registry.get_sample_value("fake_overruns_total") == 0
    assert registry.get_sample_value("fake_last_success_timestamp_seconds") == 0
    assert registry.get_sample_value("fake_cycle_duration_seconds_count") == 0
    assert registry.get_sample_value("fake_cycle_duration_seconds_bucket", {"le": "60.0"}) == 0
    assert registry.get_sample_value("fake_items_total") == 0


def test_failures_are_reported_last() -> None:
    assert list(FakeResult(done_count=1).counts()) == ["done_count", "failed_count"]
    assert CycleResult().counts() == {"failed_count": 0}


def test_old_runs_are_purged_in_batches_and_by_the_loop_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    monkeypatch.setattr(models, "_PURGE_BATCH", 2)
    done, _registry = _turn(FakeJob(lambda _keep_going: None))
    template = JobRun.objects.get(id=done.run_id)
    for number, age in enumerate([31, 31, 31, 31, 31, 30, 1]):
        template.pk = f"00000000-0000-7000-8000-{number:012}"
        template.started_at = noon - datetime.timedelta(days=age)
        template.save(force_insert=True)

    assert models.purge(as_of=noon) == 5
    assert JobRun.objects.filter(started_at__lt=noon).count() == 2

    time = FakeTime(until=2 * 3_600 + 30)
    with mock.patch.object(models, "purge", return_value=0) as purge:
        _run(FakeJob(lambda _keep_going: None), time=time)
    assert purge.call_count == 3


@pytest.mark.parametrize("outcome", ["Running", ""])
def test_the_database_refuses_an_outcome_that_is_none(outcome: str) -> None:
    from django.db import IntegrityError, transaction

    done, _registry = _turn(FakeJob(lambda _keep_going: None))
    with pytest.raises(IntegrityError, match="ck_job_runs_outcome"), transaction.atomic():
        JobRun.objects.filter(id=done.run_id).update(outcome=outcome)
    execute("SELECT 1")


def test_the_sentence_that_is_recorded_of_an_error_quotes_no_value_of_a_row() -> None:
    with pytest.raises(DataError) as caught, transaction.atomic():
        sql.fetch("SELECT 'Anna'::uuid")

    assert sentence(caught.value).startswith("DataError: invalid input syntax for type uuid")
    assert "Anna" not in sentence(caught.value)
