"""The consumer `run_notifications`: messages become deliveries, deliveries are sent."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, Min, Q
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from contracts.base import Contract
from core import clock, logs
from notifications import audience, deliveries, recording, rendering
from notifications.audience import Told
from notifications.models import Delivery, Status
from notifications.sending import Sender
from workers.consumer import ConsumedResult, Consumer, Reaction, Received
from workers.job import KeepGoing

log = logs.get(__name__)

_DELAY_BUCKETS = (1, 2, 5, 10, 20, 30, 60, 90, 120, 300, 900, 3_600)


@dataclass(frozen=True, kw_only=True)
class NotificationsResult(ConsumedResult):
    """And what became of deliveries; `failed_count` counts messages put aside and deliveries parked."""

    sent_count: int = 0
    retried_count: int = 0
    unreachable_count: int = 0


class NotificationsMetrics:
    """All of them exist from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "calendar_notifications"
        self._deliveries = Counter(
            f"{prefix}_deliveries", "Attempts by outcome", ["kind", "channel", "outcome"], registry=registry
        )
        self._delay = Histogram(
            f"{prefix}_delivery_delay_seconds",
            "From what happened to its mail",
            buckets=_DELAY_BUCKETS,
            registry=registry,
        )
        self._outages = Counter(
            f"{prefix}_channel_outages", "Times a channel was found away", ["channel"], registry=registry
        )
        self._pending = Gauge(f"{prefix}_deliveries_pending", "Deliveries still to be sent", registry=registry)
        self._parked = Gauge(f"{prefix}_deliveries_parked", "Deliveries given up", registry=registry)
        self._oldest = Gauge(
            f"{prefix}_oldest_pending_age_seconds", "Age of the oldest delivery still to be sent", registry=registry
        )

    def settled(self, delivery: Delivery, *, outcome: str) -> None:
        self._deliveries.labels(delivery.kind, delivery.channel, outcome).inc()
        if delivery.sent_at is not None:
            happened_at = rendering.message_of(delivery).occurred_at
            self._delay.observe(max(0.0, (delivery.sent_at - happened_at).total_seconds()))

    def unreachable(self, channel: str) -> None:
        self._outages.labels(channel).inc()

    def measure(self, *, as_of: datetime.datetime) -> None:
        """Set the gauges from the database."""
        unsettled = Delivery.objects.filter(status__in=[Status.PENDING, Status.PARKED]).aggregate(
            pending=Count("id", filter=Q(status=Status.PENDING)),
            parked=Count("id", filter=Q(status=Status.PARKED)),
            oldest_at=Min("created_at", filter=Q(status=Status.PENDING)),
        )
        self._pending.set(unsettled["pending"])
        self._parked.set(unsettled["parked"])
        self._oldest.set(clock.age_seconds(unsettled["oldest_at"], as_of=as_of))


class NotificationsJob(Consumer):
    """A cycle sends what is due, then reads; the next one, at once, sends what was read."""

    name = "notifications"
    metrics_prefix = "calendar_notifications"
    group_name = "notifications"

    def __init__(self) -> None:
        super().__init__()
        self._watch = NotificationsMetrics(CollectorRegistry())
        self._sender = Sender(watch=self._watch)

    def reactions(self) -> Mapping[type[Contract], Reaction]:
        return dict.fromkeys(audience.CONTRACTS, _record)

    def make_metrics(self, registry: CollectorRegistry) -> "NotificationsJob":
        super().make_metrics(registry)
        self._watch = NotificationsMetrics(registry)
        self._sender = Sender(watch=self._watch)
        return self

    def refresh(self, as_of: datetime.datetime) -> None:
        super().refresh(as_of)
        self._watch.measure(as_of=as_of)

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> NotificationsResult:
        tally = self._sender.send_due(limit=limit, keep_going=keep_going)
        read = super().cycle(as_of=as_of, limit=limit, keep_going=keep_going)
        return NotificationsResult(
            handled_count=read.handled_count,
            repeated_count=read.repeated_count,
            sent_count=tally[Status.SENT],
            retried_count=tally["retried"],
            unreachable_count=tally["unreachable"],
            failed_count=read.failed_count + tally[Status.PARKED],
            is_batch_full=read.is_batch_full or read.handled_count > 0 or tally.total() >= limit,
        )

    def keep_house(self, *, as_of: datetime.datetime) -> None:
        super().keep_house(as_of=as_of)
        if deleted := deliveries.purge(as_of=as_of):
            log.info("deliveries purged", deleted_count=deleted)


def _record(message: Told, received: Received) -> None:
    recorded = recording.record(message, message_id=received.message_id, as_of=received.as_of)

    def tell() -> None:
        for delivery in recorded:
            log.info(
                "delivery recorded",
                delivery_id=str(delivery.id),
                subject_id=str(delivery.subject_id),
                kind=delivery.kind,
                channel=delivery.channel,
                status=delivery.status,
            )

    transaction.on_commit(tell, robust=True)
