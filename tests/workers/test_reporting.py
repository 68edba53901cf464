"""What a cycle leaves behind: its row in `job_runs`, its metrics, and for how long."""

import datetime
from unittest import mock

import pytest
from django.db import DataError, IntegrityError, OperationalError, transaction
from prometheus_client import CollectorRegistry

from core import clock, sql
from core.ids import new_id
from tests.workers import turns
from tests.workers.fakes import FakeJob, FakeMetrics, FakeResult, FakeTime, execute
from workers import loop, models
from workers.job import CycleResult, KeepGoing
from workers.models import JobRun, Outcome
from workers.reporting import Reporter, Turn, sentence

pytestmark = pytest.mark.django_db


class Ticker(FakeJob):
    records_idle_cycles = False


def test_a_cycle_leaves_a_row() -> None:
    done, registry = turns.turn(FakeJob(lambda _keep_going: FakeResult(done_count=3, failed_count=2)))

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

    done, registry = turns.turn(FakeJob(fail))

    run = JobRun.objects.get(id=done.run_id)
    assert (run.outcome, run.error) == (Outcome.FAILED, "OperationalError: server closed the connection")
    assert registry.get_sample_value("fake_errors_total") == 1
    assert registry.get_sample_value("fake_last_success_timestamp_seconds") == 0


def test_idle_cycles_of_a_busy_ticker_leave_no_row() -> None:
    turns.turn(Ticker(lambda _keep_going: FakeResult()))
    assert not JobRun.objects.exists()

    turns.turn(Ticker(lambda _keep_going: FakeResult(done_count=1)))
    assert JobRun.objects.count() == 1


def test_cycles_of_a_busy_ticker_share_a_row_for_ten_seconds() -> None:
    job = Ticker(lambda _keep_going: FakeResult(done_count=3))
    reporter = Reporter(job, registry=CollectorRegistry())
    start = clock.now()

    def report(seconds: float, *, outcome: Outcome = Outcome.SUCCEEDED, taking: float = 0.2) -> None:
        as_of = start + datetime.timedelta(seconds=seconds)
        result = FakeResult(done_count=3, failed_count=1)
        reporter.finished(Turn(run_id=new_id(), as_of=as_of, duration_seconds=taking, outcome=outcome, result=result))

    for seconds in (0, 4, 9.9, 10, 11):
        report(seconds)
    report(12, outcome=Outcome.FAILED)
    report(13)
    report(14, taking=40)
    report(15)

    rows = JobRun.objects.order_by("started_at").values_list("counts", "duration_ms", "outcome")
    assert list(rows) == [
        ({"cycles": 3, "doneCount": 9, "failedCount": 3}, 600, Outcome.SUCCEEDED),
        ({"cycles": 2, "doneCount": 6, "failedCount": 2}, 400, Outcome.SUCCEEDED),
        ({"doneCount": 3, "failedCount": 1}, 200, Outcome.FAILED),
        ({"doneCount": 3, "failedCount": 1}, 200, Outcome.SUCCEEDED),
        ({"doneCount": 3, "failedCount": 1}, 40_000, Outcome.SUCCEEDED),
        ({"doneCount": 3, "failedCount": 1}, 200, Outcome.SUCCEEDED),
    ]


def test_a_shared_row_that_is_gone_is_followed_by_a_new_one() -> None:
    job = Ticker(lambda _keep_going: FakeResult(done_count=1))
    reporter, stop = Reporter(job, registry=CollectorRegistry()), FakeTime(until=1e9).stop

    loop.turn(job, pace=turns.MINUTELY, stop=stop, reporter=reporter)
    JobRun.objects.all().delete()
    last = loop.turn(job, pace=turns.MINUTELY, stop=stop, reporter=reporter)

    assert [run.id for run in JobRun.objects.all()] == [last.run_id]


@pytest.mark.parametrize(("of", "what"), [(JobRun, "save"), (FakeMetrics, "refresh"), (FakeMetrics, "record")])
def test_a_row_or_a_gauge_that_cannot_be_had_does_not_fail_the_cycle(of: type, what: str) -> None:
    with mock.patch.object(of, what, side_effect=OperationalError("away")) as failing:
        done, _registry = turns.turn(FakeJob(lambda _keep_going: FakeResult(done_count=1)))

    assert failing.called
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
    done, _registry = turns.turn(FakeJob(lambda _keep_going: None))
    template = JobRun.objects.get(id=done.run_id)
    for number, age in enumerate([31, 31, 31, 31, 31, 30, 1]):
        template.pk = f"00000000-0000-7000-8000-{number:012}"
        template.started_at = noon - datetime.timedelta(days=age)
        template.save(force_insert=True)

    assert models.purge(as_of=noon) == 5
    assert JobRun.objects.filter(started_at__lt=noon).count() == 2

    time = FakeTime(until=2 * 3_600 + 30)
    with mock.patch.object(models, "purge", return_value=0) as purge:
        turns.run(FakeJob(lambda _keep_going: None), time=time)
    assert purge.call_count == 3


@pytest.mark.parametrize("outcome", ["Running", ""])
def test_the_database_refuses_an_outcome_that_is_none(outcome: str) -> None:
    done, _registry = turns.turn(FakeJob(lambda _keep_going: None))
    with pytest.raises(IntegrityError, match="ck_job_runs_outcome"), transaction.atomic():
        JobRun.objects.filter(id=done.run_id).update(outcome=outcome)
    execute("SELECT 1")


def test_the_sentence_that_is_recorded_of_an_error_quotes_no_value_of_a_row() -> None:
    with pytest.raises(DataError) as caught, transaction.atomic():
        sql.fetch("SELECT 'Anna'::uuid")

    assert sentence(caught.value).startswith("DataError: invalid input syntax for type uuid")
    assert "Anna" not in sentence(caught.value)
