"""The loop on a clock of its own: ticks, budget, drain, back-off."""

import datetime
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.db import OperationalError
from prometheus_client import CollectorRegistry

from core import correlation
from tests.workers import turns
from tests.workers.fakes import Doing, FakeJob, FakeResult, FakeTime
from workers import loop
from workers.job import JobUnavailable, KeepGoing
from workers.loop import Pace
from workers.models import Outcome
from workers.reporting import Reporter
from workers.stopping import Stop

pytestmark = pytest.mark.django_db


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

    turns.run(FakeJob(doing), time=time)

    assert starts == [0, 60, 120, 180]


def test_ticks_missed_by_a_long_cycle_are_skipped_not_queued() -> None:
    time = FakeTime(until=400)
    starts, doing = _starts(time, taking=lambda n: 130.0 if n == 2 else 1.0)

    turns.run(FakeJob(doing), time=time)

    assert starts == [0, 60, 240, 300, 360]


def test_drain_starts_the_next_cycle_at_once_while_the_batch_was_full() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, taking=lambda _n: 2.0, ends=lambda n: FakeResult(is_batch_full=n < 3))

    turns.run(FakeJob(doing), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True))

    assert starts == [0, 2, 4, 60]


def test_drain_goes_on_at_once_when_a_cycle_ran_out_of_time() -> None:
    time = FakeTime(until=100)

    def until_told_to_stop(keep_going: KeepGoing) -> FakeResult | None:
        starts.append(time.elapsed)
        while keep_going() and len(starts) < 3:
            time.pass_by(31)
        return FakeResult()

    starts: list[float] = []
    turns.run(
        FakeJob(until_told_to_stop), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True)
    )

    assert starts[:3] == [0, 31, 62]


def test_without_drain_a_full_batch_waits_for_the_tick() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, ends=lambda _n: FakeResult(is_batch_full=True))

    turns.run(FakeJob(doing), time=time)

    assert starts == [0, 60]


def test_drain_does_not_spin_on_a_batch_in_which_everything_failed() -> None:
    time = FakeTime(until=100)
    starts, doing = _starts(time, ends=lambda _n: FakeResult(is_batch_full=True, failed_count=10))

    turns.run(FakeJob(doing), time=time, pace=Pace(interval=60, batch_size=10, max_duration=30, drain=True))

    assert starts == [0, 60]


@pytest.mark.parametrize(
    "error", [OperationalError("away"), OSError("no route"), JobUnavailable("broker"), KeyError("defect")]
)
def test_no_error_of_a_cycle_ends_the_loop(error: Exception) -> None:
    time = FakeTime(until=130)
    starts, doing = _starts(time, ends=lambda n: error if n == 1 else None)

    registry = turns.run(FakeJob(doing), time=time)

    assert starts == [0, 60, 120]
    assert registry.get_sample_value("fake_errors_total") == 1


def test_back_off_doubles_up_to_thirty_seconds_and_ends_with_a_success() -> None:
    time = FakeTime(until=115)
    starts, doing = _starts(time, ends=lambda n: JobUnavailable("broker") if n <= 6 else None)

    turns.run(FakeJob(doing), time=time, pace=Pace(interval=1, batch_size=10, max_duration=30))

    pauses = [round(later - earlier, 3) for earlier, later in pairwise(starts)]
    assert pauses[:8] == [2, 4, 8, 16, 30, 30, 1, 1]


def test_back_off_beats_all_the_while() -> None:
    time = FakeTime(until=59)

    def away(_keep_going: KeepGoing) -> None:
        raise JobUnavailable("broker")

    turns.run(FakeJob(away), time=time)

    assert time.beats >= 59 / 0.1


def test_a_job_that_knows_of_work_is_not_kept_waiting() -> None:
    time = FakeTime(until=30)
    starts, doing = _starts(time)

    class Woken(FakeJob):
        def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
            stop.wait(min(seconds, 10.0))

    turns.run(Woken(doing), time=time)

    assert starts == [0, 10, 20]


@pytest.mark.parametrize("ends", [None, JobUnavailable("broker")])
def test_cycles_before_their_tick_do_not_put_off_the_next(ends: Exception | None) -> None:
    """However often a job was woken, it polls at the tick; and an outage is waited out by its back-off alone."""
    time = FakeTime(until=400)
    starts, doing = _starts(time, ends=lambda n: ends if n == 50 else None)

    class Woken(FakeJob):
        def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
            stop.wait(min(seconds, 1.0) if len(starts) < 50 else seconds)

    turns.run(Woken(doing), time=time)

    assert [round(start) for start in starts[45:53]] == [45, 46, 47, 48, 49, 60, 120, 180]


def test_a_job_whose_waiting_breaks_is_backed_off() -> None:
    time = FakeTime(until=130)
    starts, doing = _starts(time)

    class Deaf(FakeJob):
        def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
            raise OSError("the connection that listens is gone")

    registry = turns.run(Deaf(doing), time=time)

    assert starts == [0, 60, 120]
    assert registry.get_sample_value("fake_errors_total") == 3


@pytest.mark.parametrize(("max_duration", "steps"), [(30, 3), (0.001, 1)])
def test_past_its_time_a_cycle_is_told_to_end_and_the_overrun_is_counted(max_duration: float, steps: int) -> None:
    """However little time it has, it gets one step done: cycles that come to nothing would never end a backlog."""
    time = FakeTime(until=1_000)
    items = 0

    def slow(keep_going: KeepGoing) -> FakeResult:
        nonlocal items
        time.pass_by(0.1)
        while keep_going():
            items += 1
            time.pass_by(10)
        return FakeResult(done_count=items)

    job, registry = FakeJob(slow), CollectorRegistry()
    pace = Pace(interval=60, batch_size=10, max_duration=max_duration)
    done = loop.turn(
        job, pace=pace, stop=time.stop, reporter=Reporter(job, registry=registry), monotonic=time.monotonic
    )

    assert (items, done.outcome, done.ran_out_of_time) == (steps, Outcome.SUCCEEDED, True)
    assert registry.get_sample_value("fake_overruns_total") == 1


def test_asking_to_keep_going_is_a_sign_of_life() -> None:
    time = FakeTime(until=1_000)

    def ask(keep_going: KeepGoing) -> None:
        before = time.beats
        keep_going()
        assert time.beats == before + 1

    done, _registry = turns.turn(FakeJob(ask), stop=time.stop)

    assert done.outcome is Outcome.SUCCEEDED


def test_the_run_id_is_the_correlation_id_and_the_clock_is_read_once() -> None:
    seen: dict[str, Any] = {}

    class Curious(FakeJob):
        def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> FakeResult:
            seen.update(as_of=as_of, limit=limit, correlation_id=correlation.correlation_id())
            return FakeResult()

    done, _registry = turns.turn(Curious(lambda _keep_going: None))

    assert seen == {"as_of": done.as_of, "limit": 10, "correlation_id": done.run_id}
