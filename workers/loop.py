"""The polling loop: ticks of monotonic time, one cycle at a time, back-off while the infrastructure is away."""

import datetime
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import close_old_connections, connection

from core import clock, ids, logs, tracing
from core.correlation import correlated
from workers import models
from workers.job import CycleResult, Job
from workers.models import Outcome
from workers.reporting import Reporter, Turn, sentence
from workers.stopping import Interrupted, Stop, interruptible, is_broken_off

log = logs.get(__name__)

_LONGEST_BACKOFF = 30.0
_PURGE_EVERY = 3_600.0

Monotonic = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often, how much, how long: seconds, items, seconds. `drain`: no pause after a full batch."""

    interval: float
    batch_size: int
    max_duration: float
    drain: bool = False


class _Budget:
    """The `keep_going` of one cycle; remembers whether it was time that ran out.

    The first step is always granted: with too little time a cycle after the other would come to nothing.
    """

    def __init__(self, *, seconds: float, stop: Stop, monotonic: Monotonic) -> None:
        self._stop = stop
        self._monotonic = monotonic
        self._ends_at = monotonic() + seconds
        self._has_begun = False
        self.ran_out = False

    def __call__(self) -> bool:
        self._stop.beat()
        if self._stop.asked:
            return False
        self.ran_out = self._has_begun and self._monotonic() >= self._ends_at
        self._has_begun = True
        return not self.ran_out


def turn(job: Job[Any], *, pace: Pace, stop: Stop, reporter: Reporter, monotonic: Monotonic = time.monotonic) -> Turn:
    """One cycle, reported. Whatever it raises ends up in the turn's outcome."""
    if not connection.in_atomic_block:  # as in a test, whose transaction would be closed with its connection
        close_old_connections()
    run_id, as_of = ids.new_id(), clock.now()
    with correlated(run_id), tracing.span(f"{job.name} cycle", run_id=str(run_id)):
        reporter.started(run_id=run_id, as_of=as_of)
        started = monotonic()
        budget = _Budget(seconds=pace.max_duration, stop=stop, monotonic=monotonic)
        result: CycleResult | None = None
        error: BaseException | None = None
        try:
            with interruptible(connection, stop=stop):
                result = job.cycle(as_of=as_of, limit=pace.batch_size, keep_going=budget)
        except (Interrupted, Exception) as caught:
            error = caught
        stop.beat()
        outcome = _judge(error, stop=stop)
        if error is not None:
            _disconnect()
        done = Turn(
            run_id=run_id,
            as_of=as_of,
            duration_seconds=monotonic() - started,
            outcome=outcome,
            result=result,
            error=error,
            ran_out_of_time=budget.ran_out,
        )
        reporter.finished(done)
        stop.beat()
        return done


def _judge(error: BaseException | None, *, stop: Stop) -> Outcome:
    if stop.asked and (error is None or isinstance(error, Interrupted) or is_broken_off(error)):
        return Outcome.STOPPED
    return Outcome.SUCCEEDED if error is None else Outcome.FAILED


def _disconnect() -> None:
    """So that the next statement connects anew."""
    if not connection.in_atomic_block:
        connection.close()


def is_worth_another(done: Turn, *, pace: Pace) -> bool:
    """With --drain: more is left, as the batch was full or time ran out, and not everything in it failed."""
    result = done.result
    if not pace.drain or result is None:
        return False
    return (result.is_batch_full or done.ran_out_of_time) and result.failed_count < pace.batch_size


def run(
    job: Job[Any],
    *,
    pace: Pace,
    stop: Stop,
    reporter: Reporter,
    monotonic: Monotonic = time.monotonic,
    jitter: Callable[[float, float], float] = random.uniform,
) -> None:
    """Run cycles until the stop is asked for. Missed ticks are skipped; no error of a cycle ends the loop."""
    next_tick = monotonic()
    purge_at = next_tick
    failures = 0
    while not stop.asked:
        done = turn(job, pace=pace, stop=stop, reporter=reporter, monotonic=monotonic)
        failures = failures + 1 if done.outcome is Outcome.FAILED else 0
        if done.outcome is Outcome.SUCCEEDED and monotonic() >= purge_at:
            purge_at = monotonic() + _PURGE_EVERY
            _keep_house(job, as_of=done.as_of)
        if stop.asked or is_worth_another(done, pace=pace):
            continue
        next_tick = _tick_after(monotonic(), tick=next_tick, interval=pace.interval)
        if not failures:
            try:
                job.wait_for_work(max(0.0, next_tick - monotonic()), stop=stop)
                continue
            except Exception as error:  # as with a cycle: told, and waited out like any other outage
                reporter.waiting_failed(error)
                failures = 1
        extra = _backoff(failures, interval=pace.interval) - pace.interval
        if extra > 0:
            next_tick += extra * jitter(0.5, 1.0)
        stop.wait(max(0.0, next_tick - monotonic()))


def _tick_after(now: float, *, tick: float, interval: float) -> float:
    """The first tick of the grid that is still ahead: `tick` itself, when a job that knew of work came before it."""
    return tick if tick > now else tick + interval * ((now - tick) // interval + 1)


def _backoff(failures: int, *, interval: float) -> float:
    return max(interval, min(interval * 2.0 ** min(failures, 16), _LONGEST_BACKOFF))


def _keep_house(job: Job[Any], *, as_of: datetime.datetime) -> None:
    try:
        if deleted := models.purge(as_of=as_of):
            log.info("job runs purged", deleted_count=deleted)
        job.keep_house(as_of=as_of)
    except Exception as error:  # the next hour tries again
        log.warning("housekeeping failed", error=sentence(error))
        _disconnect()
