"""Reads what is on Kafka, from the start, as a consumer that has been there all along would."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from contracts.calendar import PUBLISHED
from core.ids import new_id
from tests.kafka_client import settings_for


@dataclass(frozen=True)
class Record:
    """A record in the order of its partition; records of one key are in one partition."""

    topic: str
    partition: int
    offset: int
    key: str
    value: Any
    headers: dict[str, str]

    @property
    def message_id(self) -> str:
        return self.headers["ce_id"]


_PUBLISHED = tuple(message.TOPIC for message in PUBLISHED)


def read_all(bootstrap: str, topics: Iterable[str] = _PUBLISHED, *, timeout: float = 10) -> list[Record]:
    """Every record of the topics that exist, by topic, partition and offset; AssertionError after `timeout` seconds."""
    return sorted(_read(bootstrap, topics, timeout=timeout), key=lambda r: (r.topic, r.partition, r.offset))


def of_keys(records: Iterable[Record], *keys: object) -> list[Record]:
    """Those of these keys: a topic holds what other tests have sent too, some of it spoilt on purpose."""
    wanted = set(map(str, keys))
    return [record for record in records if record.key in wanted]


def first_deliveries(records: Iterable[Record]) -> list[Record]:
    """Without the repeats, which carry the same message id."""
    first: dict[str, Record] = {}
    for record in records:
        first.setdefault(record.message_id, record)
    return list(first.values())


def skip_history(bootstrap: str, topics: Iterable[str], *, group: str) -> None:
    """Make the group begin behind what is on the topics now."""
    ends: dict[tuple[str, int], int] = {}
    for record in read_all(bootstrap, topics, timeout=30):
        ends[record.topic, record.partition] = record.offset + 1
    consumer = Consumer({**settings_for(bootstrap), "group.id": group})
    try:
        if ends:
            offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()


def _read(bootstrap: str, topics: Iterable[str], *, timeout: float) -> Iterator[Record]:
    consumer = Consumer(
        {
            **settings_for(bootstrap),
            "group.id": f"reader-{new_id()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        known = consumer.list_topics(timeout=timeout).topics
        open_ends = {(t, p) for t in topics if t in known for p in known[t].partitions}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in open_ends])
        deadline = time.monotonic() + timeout
        while open_ends:
            assert time.monotonic() < deadline, f"the ends of {open_ends} were not reached within {timeout} s"
            for message in consumer.consume(1_000, timeout=0.1):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    open_ends.discard((message.topic(), message.partition()))
                    continue
                yield _record(message)
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key().decode(),
        value=_value(message.value()),
        headers={name: value.decode() for name, value in message.headers() or []},
    )


def _value(sent: bytes | None) -> Any:
    """What its JSON says, or the bytes where it is no JSON."""
    try:
        return orjson.loads(sent) if sent else None
    except orjson.JSONDecodeError:
        return sent
