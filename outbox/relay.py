"""The relay as a job of the polling harness: `run_outbox_relay` runs it (spec: outbox)."""

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import DatabaseError
from prometheus_client import CollectorRegistry

from core import logs
from outbox import housekeeping, sessions
from outbox.kafka import Sender
from outbox.metrics import RelayMetrics
from outbox.publish import CHANNEL, NOTIFY_EVERY_SECONDS
from outbox.tenure import Every, Tally, Tenure
from workers import kafka
from workers.job import Check, CycleResult, Job, KeepGoing
from workers.stopping import Stop

log = logs.get(__name__)

_SLICE_SECONDS = 0.1
_PURGE_SECONDS = 3_600.0
_MEASURE_SECONDS = 5.0
_FLOOR_HELD_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class RelayResult(CycleResult):
    """Messages published, refused and parked; `is_batch_full` says that the cycle ended before its work did."""

    published_count: int = 0
    parked_count: int = 0

    def counts(self) -> dict[str, int]:
        return {"published": self.published_count, "failed": self.failed_count, "parked": self.parked_count}


class RelayJob(Job[RelayResult]):
    """Publishes until nothing publishable is left, then waits for a NOTIFY or the next poll."""

    name = "outbox-relay"
    metrics_prefix = "calendar_outbox_relay"
    records_idle_cycles = False

    def __init__(self) -> None:
        self._sender = Sender()
        self._tenure: Tenure | None = None
        self._listener: psycopg.Connection[Any] | None = None
        self._look_again_at = 0.0
        self._purge = housekeeping.Purge()
        self._purging = Every(_PURGE_SECONDS)
        self._metrics = RelayMetrics(CollectorRegistry())

    def make_metrics(self, registry: CollectorRegistry) -> "_Gauges":
        self._metrics = RelayMetrics(registry)
        return _Gauges(self)

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> RelayResult:
        tally = Tally()
        try:
            # First: who can't reach the broker must not count among the relays, or shards are left to it.
            self._sender.warm()
            if self._tenure is None:
                self._tenure = Tenure(sender=self._sender, metrics=self._metrics)
            self._tenure.publish(tally, as_of=as_of, limit=limit, keep_going=keep_going)
        except BaseException:
            self._resign()  # the session may be lost, or another relay may still reach the broker
            raise
        if self._purging.is_due():
            self._purge.start()
        if not tally.is_cut_short:
            self._purge_on(as_of=as_of)
        return RelayResult(
            published_count=tally.published,
            failed_count=tally.failed,
            parked_count=tally.parked,
            is_batch_full=tally.is_cut_short,
        )

    def _purge_on(self, *, as_of: datetime.datetime) -> None:
        """Rows in other hands, or a slow disk, end this purge and nothing else: the next one comes in an hour."""
        try:
            self._purge.step(as_of=as_of)
        except DatabaseError as error:
            log.warning("outbox purge broken off", error=type(error).__name__)
            self._purge.break_off()

    def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
        """Until a NOTIFY comes; and once more NOTIFY_EVERY_SECONDS after one, for what writers then left unsaid."""
        ends_at = time.monotonic() + seconds
        if self._look_again_at:
            ends_at = min(ends_at, self._look_again_at)
            self._look_again_at = 0.0
        try:
            listener = self._listen()
            while not stop.asked and (left := ends_at - time.monotonic()) > 0:
                stop.beat()
                if list(listener.notifies(timeout=min(left, _SLICE_SECONDS), stop_after=1)):
                    self._look_again_at = time.monotonic() + NOTIFY_EVERY_SECONDS
                    return
        except psycopg.Error as error:  # polling goes on without it, and tells more when the database is away
            log.warning("outbox listener lost", error=type(error).__name__)
            self._close_listener()
            stop.wait(ends_at - time.monotonic())

    def readiness_checks(self) -> Mapping[str, Check]:
        return {"kafka": kafka.check}

    def measure(self, as_of: datetime.datetime) -> None:
        """Set the gauges of the shards that are owned."""
        tenure = self._tenure
        if tenure is not None:
            self._metrics.measure(tenure.session, shards=tenure.shards, above=tenure.floor.id, as_of=as_of)
            if tenure.floor.held_seconds > _FLOOR_HELD_SECONDS:
                log.warning("outbox floor held by a writing transaction", seconds=round(tenure.floor.held_seconds))

    def close(self) -> None:
        self._resign()
        self._sender.close()
        self._close_listener()

    def _resign(self) -> None:
        if self._tenure is not None:
            self._tenure.close()
            self._tenure = None

    def _listen(self) -> psycopg.Connection[Any]:
        if self._listener is None:
            self._listener = sessions.connect("outbox relay listener")
            self._listener.execute(f"LISTEN {CHANNEL}")
        return self._listener

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Gauges:
    """Read from the database every few seconds, not at each of many cycles a second."""

    def __init__(self, job: RelayJob) -> None:
        self._job = job
        self._measuring = Every(_MEASURE_SECONDS)

    def record(self, result: RelayResult) -> None:
        """Everything is counted where it happens."""

    def refresh(self, as_of: datetime.datetime) -> None:
        if self._measuring.is_due():
            self._job.measure(as_of)
