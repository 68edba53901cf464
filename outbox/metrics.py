"""The relay's metrics (spec: outbox, what is watched).

Gauges tell of the shards that this relay owns. The web tells the totals under the same names, so take the largest.
"""

import datetime
import time
from collections import Counter as Tally
from collections.abc import Sequence
from uuid import UUID

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from core import clock
from outbox.queue import Row, Session

_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600)
_OBSERVED_A_BURST = 50
_MEASURE = """
WITH ready AS (
    SELECT count(*) AS rows, min(id) AS first FROM outbox_ready WHERE shard = ANY(%(shards)s) AND id > %(above)s
), blocked AS (
    SELECT topic, key FROM outbox_blocked_keys WHERE shard = ANY(%(shards)s)
)
SELECT ready.rows, (SELECT created_at FROM outbox_messages m WHERE m.id = ready.first), (SELECT count(*) FROM blocked),
       (SELECT coalesce(sum(parked.rows), 0) FROM blocked CROSS JOIN LATERAL (
            SELECT count(*) AS rows FROM outbox_parked AS p WHERE p.topic = blocked.topic AND p.key = blocked.key
        ) AS parked)
FROM ready
"""


class RelayMetrics:
    """All of them exist from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ready = Gauge("calendar_outbox_ready", "Messages still to be published", registry=registry)
        self.oldest_age = Gauge(
            "calendar_outbox_oldest_age_seconds", "Age of the oldest message still to be published", registry=registry
        )
        self.parked = Gauge("calendar_outbox_parked", "Messages of blocked keys", registry=registry)
        self.blocked_keys = Gauge("calendar_outbox_blocked_keys", "Keys that a message holds back", registry=registry)
        self.shards_owned = Gauge("calendar_outbox_shards_owned", "Shards that this relay publishes", registry=registry)
        self.takeovers = Counter("calendar_outbox_takeovers", "Shards taken over from another relay", registry=registry)
        self._published = Counter("calendar_outbox_published", "Acknowledged messages", ["topic"], registry=registry)
        self._errors = Counter(
            "calendar_outbox_publish_errors", "Messages refused, and outages", ["topic", "reason"], registry=registry
        )
        self._latency = Histogram(
            "calendar_outbox_publish_latency_seconds",
            "Commit (the call of publish) to acknowledgement, of a sample of each burst",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )

    def published(self, rows: Sequence[Row]) -> None:
        """The broker has just acknowledged the rows."""
        for topic, count in Tally(row.topic for row in rows).items():
            self._published.labels(topic).inc(count)
        acked_at = time.time()
        for row in rows[:: len(rows) // _OBSERVED_A_BURST + 1]:
            if (told_at := _told_at(row)) is not None:
                self._latency.observe(max(0.0, acked_at - told_at))

    def own_nothing(self) -> None:
        """Whoever owns the shards now tells of them."""
        for gauge in (self.ready, self.oldest_age, self.parked, self.blocked_keys, self.shards_owned):
            gauge.set(0)

    def failed(self, topic: str, reason: str) -> None:
        """A message was refused, or was first in line when the broker was away."""
        self._errors.labels(topic, reason).inc()

    def measure(self, session: Session, *, shards: Sequence[int], above: int, as_of: datetime.datetime) -> None:
        """Set the gauges from the database."""
        parameters = {"shards": list(shards), "above": above}
        ready, oldest_at, blocked_keys, parked = session.execute(_MEASURE, parameters).fetchall()[0]
        self.ready.set(ready)
        self.oldest_age.set(clock.age_seconds(oldest_at, as_of=as_of))
        self.blocked_keys.set(blocked_keys)
        self.parked.set(parked)


def _told_at(row: Row) -> float | None:
    """When publish was called: the message's id is a UUIDv7, whose first 48 bits are that millisecond."""
    try:
        return (UUID(orjson.loads(row.headers)["ce_id"]).int >> 80) / 1000
    except (ValueError, KeyError, TypeError):  # headers that were changed by hand, and that Kafka takes all the same
        return None
