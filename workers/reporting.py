"""Tells what a cycle did: log lines, metrics, its row in `job_runs`. Reporting never breaks the loop."""

import datetime
import os
import socket
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from core import clock, logs
from workers.job import CycleResult, Job
from workers.models import SLOW_MS, JobRun, Outcome

log = logs.get(__name__)

_SUMMED_UP = datetime.timedelta(seconds=10)
_CYCLE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One cycle as the harness saw it."""

    run_id: UUID
    as_of: datetime.datetime
    duration_seconds: float
    outcome: Outcome
    result: CycleResult | None = None
    error: BaseException | None = None
    ran_out_of_time: bool = False

    @property
    def counts(self) -> dict[str, int]:
        return self.result.counts() if self.result else {}

    @property
    def duration_ms(self) -> int:
        return round(self.duration_seconds * 1000)

    @property
    def is_idle(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED and not any(self.counts.values())


def sentence(error: BaseException) -> str:
    """The error's class and the first line of its text, without what that quotes of a row."""
    first_line = logs.text_of(error).strip().partition("\n")[0][:500]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


class Reporter:
    """Reports the turns of one job; its metrics are in `registry` from the start.

    Where nobody can read them (`is_watched`), the gauges that cost a query are left alone.
    """

    def __init__(self, job: Job[Any], *, registry: CollectorRegistry, is_watched: bool = True) -> None:
        self._job = job
        self._is_watched = is_watched
        self._instance = f"{socket.gethostname()}:{os.getpid()}"
        self._shared: JobRun | None = None
        prefix = job.metrics_prefix
        self._duration = Histogram(
            f"{prefix}_cycle_duration_seconds", "Duration of a cycle", buckets=_CYCLE_BUCKETS, registry=registry
        )
        self._errors = Counter(f"{prefix}_errors_total", "Failed items and failed cycles", registry=registry)
        self._overruns = Counter(f"{prefix}_overruns_total", "Cycles that ran out of time", registry=registry)
        self._last_success = Gauge(
            f"{prefix}_last_success_timestamp_seconds", "End of the last cycle that succeeded", registry=registry
        )
        self._job_metrics = job.make_metrics(registry)
        ProcessCollector(registry=registry)

    def started(self, *, run_id: UUID, as_of: datetime.datetime) -> None:
        say = log.info if self._job.records_idle_cycles else log.debug
        say("cycle started", run_id=str(run_id), as_of=clock.iso(as_of))

    def finished(self, turn: Turn) -> None:
        self._duration.observe(turn.duration_seconds)
        is_told = self._job.records_idle_cycles or not turn.is_idle
        if turn.ran_out_of_time:
            self._overruns.inc()
            log.warning("cycle ran out of time", run_id=str(turn.run_id))
        if turn.outcome is Outcome.FAILED:
            self._errors.inc()
            log.error("cycle failed", run_id=str(turn.run_id), duration_ms=turn.duration_ms, exc_info=turn.error)
        else:
            say = log.info if is_told else log.debug
            event = "cycle completed" if turn.outcome is Outcome.SUCCEEDED else "cycle stopped"
            say(event, run_id=str(turn.run_id), **turn.counts, duration_ms=turn.duration_ms)
        if turn.outcome is Outcome.SUCCEEDED:
            self._last_success.set(turn.as_of.timestamp() + turn.duration_seconds)
        # A stop that had to break off a statement leaves no row: the database may be what hangs.
        if is_told and not (turn.outcome is Outcome.STOPPED and turn.error):
            self._record(turn)
        if turn.result is not None:
            self._errors.inc(turn.result.failed_count)
            self._measure(turn.result, as_of=turn.as_of)

    def waiting_failed(self, error: Exception) -> None:
        """The job's own waiting broke, so no cycle is to blame."""
        self._errors.inc()
        log.error("waiting for work failed", exc_info=error)

    def _record(self, turn: Turn) -> None:
        try:
            if self._add(turn):
                return
            run = self._run_of(turn)
            run.save(force_insert=True)
            is_shared = not self._job.records_idle_cycles and _is_summed_up(turn)
            self._shared = run if is_shared else None
        except Exception as error:  # the work is done and told in the log; a missing row must not undo it
            log.warning("job run not recorded", run_id=str(turn.run_id), error=sentence(error))

    def _add(self, turn: Turn) -> bool:
        """To the row of the last cycles, while there is one that takes it: durations and counts add up."""
        run = self._shared
        if run is None or not _is_summed_up(turn) or turn.as_of - run.started_at >= _SUMMED_UP:
            return False
        run.duration_ms += turn.duration_ms
        added = {name: run.counts[name] + count for name, count in _counts(turn).items()}
        run.counts = {"cycles": run.counts.get("cycles", 1) + 1, **added}
        return bool(JobRun.objects.filter(id=run.id).update(duration_ms=run.duration_ms, counts=run.counts))

    def _run_of(self, turn: Turn) -> JobRun:
        return JobRun(
            id=turn.run_id,
            job=self._job.name,
            instance=self._instance,
            as_of=turn.as_of,
            started_at=turn.as_of,
            duration_ms=turn.duration_ms,
            outcome=turn.outcome,
            counts=_counts(turn),
            error=sentence(turn.error) if turn.error else "",
        )

    def _measure(self, result: CycleResult, *, as_of: datetime.datetime) -> None:
        try:
            self._job_metrics.record(result)
            if self._is_watched:
                self._job_metrics.refresh(as_of)
        except Exception as error:  # metrics that are late must not fail a cycle that succeeded
            log.warning("metrics not refreshed", error=sentence(error))


def _is_summed_up(turn: Turn) -> bool:
    """What failed, and what was slow, has a row of its own, by which people find it."""
    return turn.outcome is Outcome.SUCCEEDED and turn.duration_ms <= SLOW_MS


def _counts(turn: Turn) -> dict[str, int]:
    return {logs.camel(name): count for name, count in turn.counts.items()}
