"""Sending to Kafka: bursts and single messages, and what became of each."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer
from django.conf import settings

from outbox.queue import Row
from workers.job import JobUnavailable, KeepGoing
from workers.kafka import client_settings, describe, is_embedded, is_outage
from workers.topics import HEADER_ALLOWANCE_BYTES

_SLICE_SECONDS = 0.25
_PATIENCE_AFTER_STOP_SECONDS = 2.0
_HEARING_OUT_SECONDS = 5.0
_METADATA_SECONDS = 5.0
_LEARN_EVERY_SECONDS = 1.0
_PRODUCER_LOG = logging.getLogger("kafka.producer")


def _is_news(record: logging.LogRecord) -> bool:
    """At each start the client warns that the setting is experimental. We chose it knowing that (ADR 0009), and tests
    on Apache Kafka show what it is for; of all that the client says this line alone is left out."""
    return "enable.gapless.guarantee is experimental" not in record.getMessage()


_PRODUCER_LOG.addFilter(_is_news)


@dataclass(frozen=True)
class Refusal:
    """The broker, or the client for it, will not take this message."""

    reason: str
    error: str


@dataclass
class Report:
    """What became of a burst: `acked` in the order sent; a row that is in neither has an unknown fate."""

    acked: list[Row] = field(default_factory=list)
    refused: dict[Row, Refusal] = field(default_factory=dict)
    outage: str = ""


def producer_settings() -> dict[str, Any]:
    """A producer that keeps order: a batch that fails for good stops it, instead of letting the next one pass.

    `delivery.timeout.ms` is above the patience of the relay, which purges what has not been acknowledged, so that
    messages never time out one by one, letting later ones through; it bounds what a relay that was paused still sends.
    """
    return {
        **client_settings(),
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "logger": _PRODUCER_LOG,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 20_000,
        "queue.buffering.max.kbytes": 65_536,
        "message.max.bytes": settings.ENV.outbox_max_message_bytes + HEADER_ALLOWANCE_BYTES,
        "delivery.timeout.ms": round(3_000 * patience_seconds()),
        "delivery.report.only.error": True,
        "allow.auto.create.topics": False,
    }


def single_producer_settings() -> dict[str, Any]:
    """A producer for one message at a time, which survives that one is refused."""
    return {
        **producer_settings(),
        "enable.idempotence": False,
        "enable.gapless.guarantee": False,
        "max.in.flight.requests.per.connection": 1,
        "linger.ms": 0,
    }


def patience_seconds() -> float:
    """How long a burst may wait for its acknowledgements before the broker counts as away.

    The embedded broker forgets its producers at a restart, which only a new producer heals: there we ask sooner.
    """
    return 3.0 if is_embedded() else 10.0


class Sender:
    """Sends rows in order. Producers live as long as nothing fails; a failed one is dropped, and made anew in time."""

    def __init__(self) -> None:
        self._burst: Producer | None = None
        self._single: Producer | None = None
        self._topics: frozenset[str] = frozenset()
        self._learned_at = -_LEARN_EVERY_SECONDS

    def warm(self) -> Producer:
        """Connect and learn the topics, so that the first message need not wait; raises JobUnavailable."""
        if self._burst is not None:
            try:
                self._burst.poll(0)
            except (KafkaException, SystemError):  # it has ended while idle
                _abandon(self._burst)
                self._burst = None
        if self._burst is None:
            producer = Producer(producer_settings())
            self._learn_topics(producer)
            self._burst = producer
        return self._burst

    def close(self) -> None:
        """Let go of the producers, and of what they have not sent."""
        for producer in (self._burst, self._single):
            if producer is not None:
                _abandon(producer)
        self._burst = self._single = None

    def send(self, rows: Sequence[Row], *, keep_going: KeepGoing) -> Report:
        """Send a burst and wait for its acknowledgements. Of a key none is acknowledged after one that failed."""
        producer = self.warm()
        known = {topic for topic in {row.topic for row in rows} if self._knows(topic)}
        burst = _Burst(producer, keep_going=keep_going)
        for row in rows:
            if row.topic not in known:
                burst.refuse(row, _unknown_topic(row))
            elif not burst.produce(row):
                break
        report = burst.settle()
        if burst.has_failed:
            _abandon(producer)
            self._burst = None
        return report

    def send_one(self, row: Row, *, keep_going: KeepGoing) -> Refusal | None:
        """Send one message on its own: None when acknowledged. Raises JobUnavailable when no message is to blame."""
        if not self._knows(row.topic):
            return _unknown_topic(row)
        if self._single is None:
            self._single = Producer(single_producer_settings())
        burst = _Burst(self._single, keep_going=keep_going)
        burst.produce(row)
        report = burst.settle()
        if report.outage:
            _abandon(self._single)
            self._single = None
            raise JobUnavailable(report.outage)
        return report.refused.get(row)

    def _knows(self, topic: str) -> bool:
        """Whether the topic exists. An unknown one is not left to the producer, which would wait for it for long."""
        if topic not in self._topics and time.monotonic() - self._learned_at >= _LEARN_EVERY_SECONDS:
            self._learn_topics(self.warm())
        return topic in self._topics

    def _learn_topics(self, producer: Producer) -> None:
        try:
            self._topics = frozenset(producer.list_topics(timeout=_METADATA_SECONDS).topics)
        except KafkaException as error:
            raise JobUnavailable(f"Kafka: {describe(error.args[0])}") from error
        self._learned_at = time.monotonic()


class _Burst:
    """Messages on their way through one producer."""

    def __init__(self, producer: Producer, *, keep_going: KeepGoing) -> None:
        self._producer = producer
        self._keep_going = keep_going
        self._gives_up_at = time.monotonic() + patience_seconds()
        self._is_stopping = False
        self._sent: list[Row] = []
        self._errors: dict[Row, KafkaError] = {}
        self._refused: dict[Row, Refusal] = {}
        self._stuck: set[tuple[str, str]] = set()
        self._outage = ""
        self._has_ended = False

    @property
    def has_failed(self) -> bool:
        """True when the producer may have lost its place."""
        return bool(self._errors or self._outage)

    def refuse(self, row: Row, refusal: Refusal) -> None:
        """Not to be sent, and nothing of its key after it."""
        if (row.topic, row.key) not in self._stuck:
            self._stuck.add((row.topic, row.key))
            self._refused[row] = refusal

    def produce(self, row: Row) -> bool:
        """Hand the row to the producer; False when nothing more can be sent."""
        if self._stuck and (row.topic, row.key) in self._stuck:
            return True
        while True:
            try:
                self._producer.produce(
                    row.topic,
                    row.payload,
                    row.key,
                    headers=orjson.loads(row.headers),
                    on_delivery=partial(self._failed, row),
                )
            except BufferError:
                if not self._wait(self._producer.poll):
                    self._outage = "Kafka takes no more messages"
                    return False
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if is_outage(reason):
                    self._outage = f"Kafka: {describe(reason)}"
                    return False
                self.refuse(row, Refusal(reason.name(), describe(reason)))
                return True
            except (ValueError, TypeError) as error:  # headers that were changed by hand
                self.refuse(row, Refusal("INVALID_HEADERS", f"{type(error).__name__}: {error}"))
                return True
            else:
                self._sent.append(row)
                return True

    def settle(self) -> Report:
        """Wait until the fate of all is known, or patience ends."""
        while len(self._producer) and self._wait(self._producer.flush):
            pass
        if len(self._producer):
            self._outage = self._outage or "Kafka has not acknowledged in time"
            self._producer.purge()
            self._hear_out()
        return self._report()

    def _hear_out(self) -> None:
        """Take the reports of what was purged. They are there, but a producer that ends breaks off telling them."""
        ends_at = time.monotonic() + _HEARING_OUT_SECONDS
        while len(self._producer) and time.monotonic() < ends_at:
            self._serve(self._producer.flush)

    def _wait(self, serve: Callable[[float], object]) -> bool:
        self._serve(serve)
        if not self._is_stopping and not self._keep_going():
            self._is_stopping = True
            self._gives_up_at = min(self._gives_up_at, time.monotonic() + _PATIENCE_AFTER_STOP_SECONDS)
        return time.monotonic() < self._gives_up_at

    def _serve(self, serve: Callable[[float], object]) -> None:
        try:
            serve(_SLICE_SECONDS)
        except (KafkaException, SystemError):
            # The producer has ended with a fatal error. The client raises it from whatever serves its callbacks, as a
            # SystemError when one of ours runs meanwhile; the reports that are left come with the next call.
            self._outage = self._outage or "Kafka: the producer has ended"
            self._has_ended = True
        if self._has_ended:  # what it has not sent, or would send again, it keeps for ever
            self._producer.purge(in_flight=False)

    def _failed(self, row: Row, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._errors[row] = error

    def _report(self) -> Report:
        report = Report(refused=self._refused, outage=self._outage)
        if len(self._producer):  # failures alone are reported: while a report is missing, nothing counts as sent
            return report
        if not self._errors:
            report.acked = self._sent
            return report
        broken: set[tuple[str, str]] = set()
        for row in self._sent:
            error = self._errors.get(row)
            key = (row.topic, row.key)
            if error is not None:
                broken.add(key)
                if is_outage(error):
                    report.outage = report.outage or f"Kafka: {describe(error)}"
                else:
                    report.refused[row] = Refusal(error.name(), describe(error))
            elif key not in broken:
                report.acked.append(row)
        return report


def _abandon(producer: Producer) -> None:
    """Never `close()`: it would try to send, without a bound."""
    producer.purge()
    with suppress(KafkaException, SystemError):
        producer.flush(0.2)


def _unknown_topic(row: Row) -> Refusal:
    return Refusal("UNKNOWN_TOPIC_OR_PART", f"there is no topic {row.topic}; run ensure_topics")
