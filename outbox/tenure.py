"""A relay's time in office: one session, the shards that it owns, and the publishing of their queues.

The session holds the locks and runs the reads and the acknowledgements, so whoever lost the locks has no means to read
on: a relay that was paused stops at its next statement. What it had already handed to the producer, at most one burst
and not longer than `delivery.timeout.ms`, is the beginning of what its successor sends: repeats, in order.
"""

import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass

from core import logs
from outbox import parking, queue, sessions
from outbox.floor import Floor
from outbox.kafka import Report, Sender
from outbox.metrics import RelayMetrics
from outbox.ownership import Ownership
from outbox.parking import BlockedKey
from outbox.queue import Row
from workers.job import JobUnavailable, KeepGoing

log = logs.get(__name__)

_REBALANCE_SECONDS = 0.5
_RETRY_SECONDS = 0.5
_RETRIED_KEYS = 50
_RETRIED_ROWS = 1_000


@dataclass
class Tally:
    """What a cycle did, so far."""

    published: int = 0
    failed: int = 0
    parked: int = 0
    is_cut_short: bool = False


class Every:
    """A gate that opens once each so many seconds, and the first time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._opens_at = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._opens_at:
            return False
        self._opens_at = now + self._seconds
        return True

    def reopen(self) -> None:
        """Due when next asked."""
        self._opens_at = 0.0


class Tenure:
    """Ends with `close`, or with the session: after any database error it must not be used again."""

    def __init__(self, *, sender: Sender, metrics: RelayMetrics) -> None:
        self._sender = sender
        self._metrics = metrics
        self._rebalancing = Every(_REBALANCE_SECONDS)
        self._retrying = Every(_RETRY_SECONDS)
        self.floor = Floor()
        self.session = sessions.connect("outbox relay")
        try:
            queue.prepare(self.session)
            self._ownership = Ownership(self.session)
        except BaseException:
            self.close()
            raise

    @property
    def shards(self) -> list[int]:
        """Those owned at present."""
        return sorted(self._ownership.shards)

    def close(self) -> None:
        """Give all shards back."""
        self.session.close()
        self._metrics.shards_owned.set(0)

    def publish(self, tally: Tally, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> None:
        """Publish the owned queues in bursts of `limit` until nothing publishable is left, and retry what is due.

        Raises JobUnavailable when the broker is away; what was published is acknowledged then.
        """
        self._sender.warm()
        self._rebalance()
        if self._retrying.is_due():
            self._retry(tally, as_of=as_of, keep_going=keep_going)
        while True:
            self._rebalance()
            rows = self._read(limit)
            if not rows:
                return
            if not keep_going():
                tally.is_cut_short = True
                return
            self._publish_burst(rows, tally, as_of=as_of, keep_going=keep_going)

    def _rebalance(self) -> None:
        """Look for a change among the relays, now and then."""
        if not self._rebalancing.is_due():
            return
        gained, taken_over = self._ownership.rebalance()
        self._metrics.shards_owned.set(len(self._ownership.shards))
        if gained:
            self.floor.reset()
            self.floor.aim_for(queue.horizon(self.session))
            self._metrics.takeovers.inc(taken_over)
            log.info("outbox shards gained", shards=sorted(gained), taken_over=taken_over)

    def _read(self, limit: int) -> list[Row]:
        if self.floor.is_waiting:
            self.floor.settle(queue.oldest_running_xid(self.session))
        rows = queue.read(self.session, shards=self.shards, above=self.floor.id, limit=limit)
        self.floor.follow(rows[0].id if rows else None)
        return rows

    def _publish_burst(
        self, rows: Sequence[Row], tally: Tally, *, as_of: datetime.datetime, keep_going: KeepGoing
    ) -> None:
        if held := [row for row in rows if row.is_blocked]:
            tally.parked += parking.hold(self.session, held, as_of=as_of)
            rows = [row for row in rows if not row.is_blocked]
        report = self._sender.send(rows, keep_going=keep_going)
        self._acknowledge(report.acked, tally)
        if report.refused:
            self._isolate(rows, report, tally, as_of=as_of, keep_going=keep_going)
        elif report.outage:
            self._metrics.failed(rows[0].topic, "outage")
            raise JobUnavailable(report.outage)

    def _acknowledge(self, rows: Sequence[Row], tally: Tally) -> None:
        if rows:
            self._metrics.published(rows)
            self.floor.aim_for(queue.acknowledge(self.session, rows))
            tally.published += len(rows)

    def _isolate(
        self, rows: Sequence[Row], report: Report, tally: Tally, *, as_of: datetime.datetime, keep_going: KeepGoing
    ) -> None:
        """A refused message fails its whole batch, so each is sent alone. A key that is then blocked is parked by the
        next read, which finds its messages marked."""
        acked = set(report.acked)
        stuck: set[tuple[str, str]] = set()
        for row in rows:
            key = (row.topic, row.key)
            if row in acked or key in stuck:
                continue
            if row not in report.refused:
                stuck.add(key)
                continue
            refusal = self._sender.send_one(row, keep_going=keep_going)
            if refusal is None:
                self._acknowledge([row], tally)
            else:
                stuck.add(key)
                parking.block(self.session, row, refusal, as_of=as_of)
                self._told_refused(row, refusal.reason, tally)

    def _told_refused(self, row: Row, reason: str, tally: Tally) -> None:
        tally.failed += 1
        self._metrics.failed(row.topic, reason)
        log.error("outbox message refused", outbox_id=row.id, topic=row.topic, key=row.key, reason=reason)

    def _retry(self, tally: Tally, *, as_of: datetime.datetime, keep_going: KeepGoing) -> None:
        due = parking.due(self.session, shards=self.shards, as_of=as_of, limit=_RETRIED_KEYS)
        for blocked in due:
            if not keep_going():
                tally.is_cut_short = True
                return
            outage = ""
            with self.session.transaction():
                if parking.lock(self.session, blocked):
                    outage = self._retry_key(blocked, tally, as_of=as_of, keep_going=keep_going)
            if outage:
                raise JobUnavailable(outage)
        if len(due) == _RETRIED_KEYS:
            self._retry_soon(tally)

    def _retry_soon(self, tally: Tally) -> None:
        """More is due: the next cycle comes at once, and goes on with it."""
        self._retrying.reopen()
        tally.is_cut_short = True

    def _retry_key(self, blocked: BlockedKey, tally: Tally, *, as_of: datetime.datetime, keep_going: KeepGoing) -> str:
        """Send what is parked of the key: the first alone and, if it passes, the others. Returns the outage, if any."""
        rows = parking.parked(self.session, blocked, limit=_RETRIED_ROWS)
        report = Report()
        if rows and (refusal := self._sender.send_one(rows[0], keep_going=keep_going)):
            report.refused[rows[0]] = refusal
        elif rows:
            report = self._sender.send(rows[1:], keep_going=keep_going)
            report.acked.insert(0, rows[0])
        passed = len(report.acked)
        parking.release(self.session, blocked, rows[:passed])
        self._metrics.published(rows[:passed])
        tally.published += passed
        if passed < len(rows) and (refusal := report.refused.get(rows[passed])):
            parking.block(self.session, rows[passed], refusal, as_of=as_of)
            self._told_refused(rows[passed], refusal.reason, tally)
            return ""
        if passed == _RETRIED_ROWS:
            self._retry_soon(tally)
        return report.outage
