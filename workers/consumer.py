"""Reading Kafka as a job of the polling harness: each message has its effect once, however often it is delivered.

The message's id and its effect commit in one transaction, its offset after it. A message that can't be handled is put
aside; while the database or Kafka is away none is, and the reading goes on from where it was.
"""

import datetime
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from prometheus_client import CollectorRegistry, Counter, Gauge

from contracts.base import Contract
from core import clock, database, logs
from core.correlation import correlated
from core.errors import Inconsistent, Refused
from core.tracing import continued_span
from workers import inbox, kafka
from workers.dead_letters import DeadLetters
from workers.job import Check, CycleResult, Job, KeepGoing, is_infrastructure_error
from workers.reader import Reader
from workers.records import Record, Unreadable
from workers.stopping import Stop

log = logs.get(__name__)

_READ_AT_ONCE = 500
_SLICE_SECONDS = 0.1
_ATTEMPTS = 3
_FIRST_RETRY_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Received:
    """What a reaction may need to know of a message beside its content."""

    message_id: UUID
    as_of: datetime.datetime


# Called inside the message's transaction. Raising Refused or Inconsistent puts the message aside; raising
# JobUnavailable, or an error of the database, keeps it to be tried again.
Reaction = Callable[[Any, Received], None]


@dataclass(frozen=True, kw_only=True)
class ConsumedResult(CycleResult):
    """Messages that had their effect, that had had it before, and (`failed_count`) that were put aside."""

    handled_count: int = 0
    repeated_count: int = 0


class _Unhandled(Exception):
    """The message is to be put aside."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class ConsumerMetrics:
    """What is watched of every consumer."""

    def __init__(self, registry: CollectorRegistry, *, prefix: str) -> None:
        self.lag = Gauge(
            f"{prefix}_consumer_lag", "Messages on our partitions still to be handled", ["topic"], registry=registry
        )
        self.messages = Counter(
            f"{prefix}_messages", "Messages by outcome: handled, repeated", ["topic", "outcome"], registry=registry
        )
        self.dead_letters = Counter(
            f"{prefix}_dead_letters", "Messages put aside", ["topic", "reason"], registry=registry
        )


class Consumer(Job[ConsumedResult]):
    """A subclass names its group and its reactions, one for each contract that it reads."""

    group_name: ClassVar[str]
    records_idle_cycles = False

    def __init__(self) -> None:
        self._group = settings.ENV.kafka_consumer_group_prefix + self.group_name
        self._reactions = {contract.TOPIC: (contract, react) for contract, react in self.reactions().items()}
        self._reader = Reader(group=self._group, topics=self._reactions)
        self._dead_letters = DeadLetters(group=self._group)
        self._metrics = ConsumerMetrics(CollectorRegistry(), prefix=self.metrics_prefix)

    @abstractmethod
    def reactions(self) -> Mapping[type[Contract], Reaction]:
        """What is read, and what each message leads to."""

    def make_metrics(self, registry: CollectorRegistry) -> "Consumer":
        self._metrics = ConsumerMetrics(registry, prefix=self.metrics_prefix)
        return self

    def record(self, result: ConsumedResult) -> None:
        """Everything is counted where it happens."""

    def refresh(self, as_of: datetime.datetime) -> None:
        for topic, lag in self._reader.lag().items():
            self._metrics.lag.labels(topic).set(lag)

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> ConsumedResult:
        handled = repeated = failed = 0
        while (room := limit - handled - repeated - failed) > 0 and keep_going():
            records = self._reader.fetch(min(room, _READ_AT_ONCE), wait_seconds=_SLICE_SECONDS)
            if not records and self._reader.is_at_end:
                break
            done = 0
            try:
                for record in records:
                    if not keep_going():
                        break
                    match self._handle(record):
                        case "handled":
                            handled += 1
                        case "repeated":
                            repeated += 1
                        case _:
                            failed += 1
                    self._reader.mark_done(record)
                    done += 1
            finally:
                self._reader.settle(records[done:])
        return ConsumedResult(
            handled_count=handled, repeated_count=repeated, failed_count=failed, is_batch_full=room <= 0
        )

    def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
        """Until a message is there."""
        slices = max(1, round(seconds / _SLICE_SECONDS))
        for _ in range(slices):
            stop.beat()
            if stop.asked or self._reader.wait(min(seconds, _SLICE_SECONDS)):
                return

    def keep_house(self, *, as_of: datetime.datetime) -> None:
        if forgotten := inbox.purge(as_of=as_of):
            log.info("processed messages purged", deleted_count=forgotten)

    def readiness_checks(self) -> Mapping[str, Check]:
        return {"kafka": kafka.check}

    def close(self) -> None:
        self._reader.close()
        self._dead_letters.close()

    def _handle(self, record: Record) -> str:
        """Its effect, once: handled, repeated or dead-lettered. Raises when the infrastructure is at fault."""
        with correlated(record.correlation_id, messageId=record.known_id):
            try:
                outcome = self._react(record)
            except _Unhandled as unhandled:
                self._put_aside(record, unhandled)
                return "dead-lettered"
        self._metrics.messages.labels(record.topic, outcome).inc()
        return outcome

    def _react(self, record: Record) -> str:
        contract, react = self._reactions[record.topic]
        try:
            message_id, message = record.message_id, record.read(contract)
        except Unreadable as error:
            raise _Unhandled("unreadable", str(error)) from error
        with continued_span(f"{self.name} message", parent=record.traceparent, topic=record.topic):
            for attempt in range(_ATTEMPTS):
                try:
                    return self._react_once(message, message_id, react)
                except Refused as error:
                    raise _Unhandled(error.code, error.sentence) from error
                except Inconsistent as error:
                    raise _Unhandled("inconsistent", str(error)) from error
                except Exception as error:
                    if is_infrastructure_error(error) or database.is_in_the_way(error):
                        raise
                    log.warning("message failed", topic=record.topic, attempt=attempt + 1, exc_info=error)
                    failure = error
                if attempt + 1 < _ATTEMPTS:
                    time.sleep(_FIRST_RETRY_SECONDS * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 (jitter)
            raise _Unhandled("error", type(failure).__name__) from failure

    def _react_once(self, message: Contract, message_id: UUID, react: Reaction) -> str:
        received = Received(message_id=message_id, as_of=clock.now())
        with transaction.atomic():
            if not inbox.claim(message_id, consumer=self._group, as_of=received.as_of):
                return "repeated"
            react(message, received)
        return "handled"

    def _put_aside(self, record: Record, unhandled: _Unhandled) -> None:
        self._dead_letters.put(record, reason=unhandled.reason, error=unhandled.error)
        self._metrics.dead_letters.labels(record.topic, unhandled.reason).inc()
        log.error(
            "message put aside",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=unhandled.reason,
            error=unhandled.error,
        )
