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

    @property
    def settled(self) -> int:
        """Messages that are out of the queue, one way or another."""
        return self.published + self.failed + self.parked


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
        self._metrics.own_nothing()

    def publish(self, tally: Tally, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> None:
        """Publish the owned queues in bursts of `limit` until nothing publishable is left, and retry what is due.

        Raises JobUnavailable when the broker is away; what was published is acknowledged then.
        """
        self._rebalance()
        if self._retrying.is_due():
            self._retry(tally, as_of=as_of, keep_going=keep_going)
        ahead: Sequence[Row] = ()
        while True:
            if self._rebalance():
                ahead = ()
            rows = ahead or self._read(limit)
            if not rows:
                return
            if not keep_going():
                tally.is_cut_short = True
                return
            before = tally.settled
            ahead = self._publish_burst(rows, tally, as_of=as_of, limit=limit, keep_going=keep_going)
            if tally.settled == before:
                return  # all of it is of keys that a person has in hand: the next poll looks again

    def _rebalance(self) -> bool:
        """Look for a change among the relays, now and then; True when this may have changed the shards."""
        if not self._rebalancing.is_due():
            return False
        gained, taken_over = self._ownership.rebalance()
        self._metrics.shards_owned.set(len(self._ownership.shards))
        if gained:
            self.floor.reset()
            self.floor.aim_for(queue.horizon(self.session))
            self._metrics.takeovers.inc(taken_over)
            log.info("outbox shards gained", shards=sorted(gained), taken_over=taken_over)
        return True

    def _read(self, limit: int) -> list[Row]:
        self._settle_floor()
        rows = queue.read(self.session, shards=self.shards, above=self.floor.id, limit=limit)
        self.floor.follow(rows[0].id if rows else None)
        return rows

    def _settle_floor(self) -> None:
        if self.floor.is_waiting:
            self.floor.settle(queue.oldest_running_xid(self.session))

    def _publish_burst(
        self, rows: Sequence[Row], tally: Tally, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing
    ) -> Sequence[Row]:
        """Returns the next burst, where it was read ahead and all of this one passed.

        Acknowledging comes before sending on, so a relay that has lost its session notices after one burst as ever.
        """
        if any(row.is_missing for row in rows):
            rows = self._without_missing(rows, tally)
        if held := [row for row in rows if row.is_blocked]:
            tally.parked += parking.hold(self.session, held, as_of=as_of)
            rows = [row for row in rows if not row.is_blocked]
        if not rows:
            return ()
        report, ahead = self._send(rows, is_full=len(rows) == limit, keep_going=keep_going)
        self._acknowledge(report.acked, tally)
        if report.refused:
            self._isolate(rows, report, tally, as_of=as_of, keep_going=keep_going)
        elif report.outage:
            self._metrics.failed(rows[0].topic, "outage")
            raise JobUnavailable(report.outage)
        if ahead:
            self.floor.follow(ahead[0].id)
        return ahead

    def _send(self, rows: Sequence[Row], *, is_full: bool, keep_going: KeepGoing) -> tuple[Report, Sequence[Row]]:
        """Behind a full burst there is more, which the server reads meanwhile."""
        if not is_full:
            return self._sender.send(rows, keep_going=keep_going), ()
        self._settle_floor()
        with queue.reading_ahead(self.session, shards=self.shards, above=self.floor.id, in_hand=rows) as take:
            report = self._sender.send(rows, keep_going=keep_going)
            return report, () if report.refused or report.outage else take()

    def _without_missing(self, rows: Sequence[Row], tally: Tally) -> Sequence[Row]:
        """Nothing can be sent of a message that is not there, and those behind it must not wait for it."""
        missing = [row for row in rows if row.is_missing]
        queue.acknowledge(self.session, missing)
        self._told_missing(missing, tally)
        return [row for row in rows if not row.is_missing]

    def _told_missing(self, missing: Sequence[Row], tally: Tally) -> None:
        for row in missing:
            tally.failed += 1
            log.error("outbox message missing", outbox_id=row.id, shard=row.shard)

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
            if not keep_going():
                tally.is_cut_short = True
                return
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
        retried = 0
        for blocked in due:
            if not keep_going():
                tally.is_cut_short = True
                return
            outage = ""
            with self.session.transaction():
                if parking.lock(self.session, blocked):
                    retried += 1
                    outage = self._retry_key(blocked, tally, as_of=as_of, keep_going=keep_going)
            if outage:
                raise JobUnavailable(outage)
        if retried and len(due) == _RETRIED_KEYS:
            self._retry_soon(tally)

    def _retry_soon(self, tally: Tally) -> None:
        """More is due: the next cycle comes at once, and goes on with it."""
        self._retrying.reopen()
        tally.is_cut_short = True

    def _retry_key(self, blocked: BlockedKey, tally: Tally, *, as_of: datetime.datetime, keep_going: KeepGoing) -> str:
        """Send what is parked of the key, as far as Kafka takes it. Returns the outage, if any."""
        parked = parking.parked(self.session, blocked, limit=_RETRIED_ROWS)
        missing = [row for row in parked if row.is_missing]
        report = self._send_parked([row for row in parked if not row.is_missing], keep_going=keep_going)
        parking.release(self.session, blocked, [*missing, *report.acked])
        self._told_missing(missing, tally)
        self._metrics.published(report.acked)
        tally.published += len(report.acked)
        for row, refusal in report.refused.items():
            parking.block(self.session, row, refusal, as_of=as_of)
            self._told_refused(row, refusal.reason, tally)
        if len(missing) + len(report.acked) == _RETRIED_ROWS:
            self._retry_soon(tally)
        return report.outage

    def _send_parked(self, rows: Sequence[Row], *, keep_going: KeepGoing) -> Report:
        """The first alone and, if it passes, the others; alone too, where one of them has failed its whole batch."""
        report = Report()
        try:
            self._send_alone(rows[:1], report, keep_going=keep_going)
            if report.acked:
                rest = self._sender.send(rows[1:], keep_going=keep_going)
                report.acked += rest.acked
                if rest.refused:
                    self._send_alone(rows[len(report.acked) :], report, keep_going=keep_going)
                else:
                    report.outage = rest.outage
        except JobUnavailable as error:  # what has passed so far is not to be repeated for it
            report.outage = str(error)
        return report

    def _send_alone(self, rows: Sequence[Row], report: Report, *, keep_going: KeepGoing) -> None:
        """One after the other, up to the first that is refused."""
        for row in rows:
            if not keep_going():
                return
            if refusal := self._sender.send_one(row, keep_going=keep_going):
                report.refused[row] = refusal
                return
            report.acked.append(row)
