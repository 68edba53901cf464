"""A member of a consumer group: records in, offsets committed only for what was done."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from core import logs
from workers.job import JobUnavailable
from workers.kafka import client_settings, describe, is_embedded
from workers.records import Partition, Record

log = logs.get(__name__)

_CALL_SECONDS = 5.0
# A group with more members than partitions leaves some without any, which is no reason to wait for ever.
_JOIN_SECONDS = 20.0
# The group went on without us, or a partition is another member's now: what we did is remembered by message id.
_NOT_OURS = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._STATE,
        KafkaError._NO_OFFSET,
    }
)


def consumer_settings(group: str) -> dict[str, Any]:
    """A member of the group that commits by itself only what it is told to, and hears of each partition's end."""
    embedded = {
        # The embedded broker answers a join after half of this; a real one takes no less than six seconds.
        "session.timeout.ms": 2_000,
        "heartbeat.interval.ms": 500,
        "fetch.wait.max.ms": 20,
        "topic.metadata.refresh.interval.ms": 1_000,
    }
    return {
        **client_settings(),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "allow.auto.create.topics": False,
        "session.timeout.ms": 10_000,
        "max.poll.interval.ms": 300_000,
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 16_384,
        "topic.metadata.refresh.interval.ms": 30_000,
        **(embedded if is_embedded() else {}),
    }


class Reader:
    """Reads topics as a member of a group. All methods but `lag` raise JobUnavailable when Kafka is away."""

    def __init__(self, *, group: str, topics: Iterable[str]) -> None:
        self._group = group
        self._topics = sorted(topics)
        self._consumer: Consumer | None = None
        self._started_at = 0.0
        self._fetched: list[Record] = []
        self._next: dict[Partition, int] = {}
        self._at_end: dict[Partition, bool] = {}
        self._uncommitted: set[Partition] = set()
        self._has_joined = False
        self._outage = ""
        self._missing: set[str] = set()

    def fetch(self, limit: int, *, wait_seconds: float) -> list[Record]:
        """The next records, at most `limit`; none when there are none within `wait_seconds`."""
        if not self._fetched:
            self.wait(wait_seconds)
        consumer = self._joined()
        if (room := limit - len(self._fetched)) > 0:
            self._receive(consumer.consume(room, timeout=0))
        records, self._fetched = self._fetched[:limit], self._fetched[limit:]
        return records

    def wait(self, seconds: float) -> bool:
        """Whether a record is there to be fetched, at the latest after `seconds`."""
        consumer = self._joined()
        if not self._fetched and (message := consumer.poll(seconds)) is not None:
            self._receive([message])
        return bool(self._fetched)

    @property
    def is_at_end(self) -> bool:
        """Whether all has been fetched that was on our partitions when we last asked."""
        has_joined = self._has_joined or time.monotonic() - self._started_at > _JOIN_SECONDS
        return has_joined and not self._fetched and all(self._at_end.values())

    def mark_done(self, record: Record) -> None:
        """Its effect is committed, so `settle` may commit its offset."""
        self._next[record.place] = record.offset + 1
        self._uncommitted.add(record.place)

    def settle(self, undone: Sequence[Record]) -> None:
        """Commit the offsets of what was done; what was fetched and not done will be fetched again."""
        if self._consumer is None:
            return  # it has ended: the next one begins at the committed offsets
        is_rewound = self._rewind(self._consumer, undone)
        try:
            self._commit()
        finally:
            if not is_rewound:
                self.close()

    def _rewind(self, consumer: Consumer, undone: Sequence[Record]) -> bool:
        """Whether all of it will be fetched again. This asks no broker, so it works while Kafka is away."""
        is_rewound = True
        first = {record.place: record.offset for record in reversed(undone)}
        self._fetched = [record for record in self._fetched if record.place not in first]
        for place, offset in first.items():
            if place not in self._at_end:
                continue  # another member's by now, which begins at the committed offset
            self._at_end[place] = False
            try:
                consumer.seek(TopicPartition(*place, offset))
            except KafkaException as error:
                log.warning("partition not rewound", topic=place[0], partition=place[1], error=describe(error.args[0]))
                is_rewound = False
        return is_rewound

    def _commit(self) -> None:
        consumer = self._joined()
        offsets = [TopicPartition(*place, self._next[place]) for place in self._uncommitted if place in self._next]
        try:
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() not in _NOT_OURS:
                raise self._failed(reason) from error
            log.info("offsets not committed", error=describe(reason))
        self._uncommitted.clear()

    def lag(self) -> Counter[str]:
        """Messages on our partitions of each topic that have not been done yet, as far as Kafka has told us."""
        lags = Counter(dict.fromkeys(self._topics, 0))
        if self._consumer is not None:
            for topic, partition in self._at_end:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
                lags[topic] += max(0, high - max(low, self._next.get((topic, partition), 0)))
        return lags

    def close(self) -> None:
        """Leave the group, so that the others take over at once."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _joined(self) -> Consumer:
        if self._consumer is None:
            self._fetched, self._has_joined, self._outage = [], False, ""
            self._next, self._at_end, self._uncommitted = {}, {}, set()
            self._started_at = time.monotonic()
            self._consumer = Consumer({**consumer_settings(self._group), "error_cb": self._heard})
            self._consumer.subscribe(
                self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        if self._outage:
            try:
                self._consumer.list_topics(timeout=_CALL_SECONDS)
            except KafkaException as error:
                raise JobUnavailable(f"Kafka: {self._outage}") from error
            self._outage = ""
        return self._consumer

    def _receive(self, messages: Iterable[Any]) -> None:
        """Take all of them in before an error among them is raised: they will not come again."""
        failure: KafkaError | None = None
        for message in messages:
            error: KafkaError | None = message.error()
            if error is None:
                record = Record.of(message)
                self._at_end[record.place] = False
                self._fetched.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end[message.topic(), message.partition()] = True
            elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                if message.topic() not in self._missing:
                    self._missing.add(message.topic())
                    log.warning("topic missing", topic=message.topic())
            else:
                failure = failure or error
        if failure is not None:
            raise self._failed(failure)

    def _failed(self, error: KafkaError) -> JobUnavailable:
        if error.fatal():
            self.close()
        return JobUnavailable(f"Kafka: {describe(error)}")

    def _heard(self, error: KafkaError) -> None:
        log.warning("kafka client error", error=describe(error))
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._outage = describe(error)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._has_joined = True
        places = [(partition.topic, partition.partition) for partition in partitions]
        self._at_end.update(dict.fromkeys(places, False))
        log.info("partitions assigned", group=self._group, count=len(places))
        try:
            committed = consumer.committed(partitions, timeout=_CALL_SECONDS)
        except KafkaException as error:  # only the lag is less exact for it
            log.warning("committed offsets not read", error=describe(error.args[0]))
            return
        self._next.update({(p.topic, p.partition): p.offset for p in committed if p.offset >= 0})

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for place in [(partition.topic, partition.partition) for partition in partitions]:
            self._at_end.pop(place, None)
            self._next.pop(place, None)
            self._uncommitted.discard(place)
            self._fetched = [record for record in self._fetched if record.place != place]
        log.info("partitions revoked", group=self._group, count=len(partitions))
