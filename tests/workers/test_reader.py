"""What the reader does when the client of Kafka tells of errors, at the places where a broker seldom does."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from workers import reader
from workers.job import JobUnavailable
from workers.reader import Reader

A, B = "a", "b"
_NO_RIGHT = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
_NO_BROKER = KafkaError(KafkaError._ALL_BROKERS_DOWN)


class Message:
    """A record of partition 0, or an error in its place."""

    def __init__(self, topic: str, offset: int, error: KafkaError | None = None) -> None:
        self.topic, self.offset, self.error = (lambda: topic), (lambda: offset), (lambda: error)
        self.partition, self.key, self.value = (lambda: 0), (lambda: b"key"), (lambda: b"value")

    def headers(self) -> None:
        """None."""


QUEUE: list[Message] = []


class Client:
    """A member of the group that has partition 0 of each topic from the start. Positions move as messages are taken."""

    def __init__(self, settings: Mapping[str, Any], *, queue: list[Message]) -> None:
        self._say_error = settings["error_cb"]
        self._all, self._waiting = tuple(queue), list(queue)
        self._is_assigned = False
        self.is_away = self.is_closed = self.refuses_to_seek = False
        self.committed_offsets: dict[str, int] = {}

    def subscribe(self, topics: Iterable[str], *, on_assign: Callable[..., None], **_: object) -> None:
        self._partitions = [TopicPartition(topic, 0) for topic in topics]
        self._assign = on_assign

    def poll(self, _seconds: float) -> Message | None:
        return next(iter(self.consume(1, timeout=0)), None)

    def consume(self, limit: int, *, timeout: float) -> list[Message]:
        if not self._is_assigned:
            self._is_assigned = True
            self._assign(self, self._partitions)
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return taken

    def seek(self, place: TopicPartition) -> None:
        if self.refuses_to_seek:
            raise KafkaException(KafkaError(KafkaError._STATE))
        others = [message for message in self._waiting if message.topic() != place.topic]
        again = [m for m in self._all if m.topic() == place.topic and m.offset() >= place.offset and not m.error()]
        self._waiting = [*again, *others]

    def commit(self, *, offsets: Iterable[TopicPartition], asynchronous: bool) -> None:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.committed_offsets.update({place.topic: place.offset for place in offsets})

    def committed(self, places: Iterable[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, OFFSET_INVALID) for place in places]

    def list_topics(self, timeout: float) -> None:
        if self.is_away:
            raise KafkaException(_NO_BROKER)

    def lose_the_brokers(self) -> None:
        self.is_away = True
        self._say_error(_NO_BROKER)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Those that readers have made, each of which finds QUEUE in Kafka."""
    made: list[Client] = []
    QUEUE.clear()

    def make(settings: Mapping[str, Any]) -> Client:
        made.append(Client(settings, queue=QUEUE))
        return made[-1]

    monkeypatch.setattr(reader, "Consumer", make)
    return made


def _fetched(reading: Reader, limit: int = 10) -> list[tuple[str, int]]:
    return [(record.topic, record.offset) for record in reading.fetch(limit, wait_seconds=0)]


def _work_off(reading: Reader, *, at_once: int = 10) -> list[tuple[str, int]]:
    """All that comes until nothing does, each marked and settled, errors of the cycle aside."""
    done = []
    for _ in range(10):
        try:
            records = reading.fetch(at_once, wait_seconds=0)
        except JobUnavailable:
            continue
        for record in records:
            reading.mark_done(record)
            done.append((record.topic, record.offset))
        reading.settle([])
    return done


@pytest.mark.parametrize("at_once", [1, 2, 3, 10])
def test_an_error_among_the_messages_loses_none_of_them(clients: list[Client], at_once: int) -> None:
    QUEUE.extend([Message(A, 0), Message(B, -1, _NO_RIGHT), Message(A, 1), Message(B, -1, _NO_RIGHT), Message(A, 2)])
    reading = Reader(group="fake", topics=[A, B])

    assert _work_off(reading, at_once=at_once) == [(A, 0), (A, 1), (A, 2)]
    assert clients[0].committed_offsets == {A: 3}


def test_what_is_undone_is_fetched_again_although_kafka_went_away_meanwhile(clients: list[Client]) -> None:
    QUEUE.extend(Message(A, offset) for offset in range(4))
    reading = Reader(group="fake", topics=[A])
    records = reading.fetch(2, wait_seconds=0)
    reading.mark_done(records[0])
    clients[0].lose_the_brokers()

    with pytest.raises(JobUnavailable):
        reading.settle(records[1:])
    clients[0].is_away = False

    assert _fetched(reading) == [(A, 1), (A, 2), (A, 3)]
    reading.settle([])
    assert clients[0].committed_offsets == {A: 1}  # what could not be committed then is now


def test_what_is_undone_comes_before_what_was_fetched_behind_it(clients: list[Client]) -> None:
    QUEUE.extend([*(Message(A, offset) for offset in range(3)), Message(B, -1, _NO_RIGHT), Message(A, 3)])
    reading = Reader(group="fake", topics=[A, B])
    with pytest.raises(JobUnavailable):
        reading.fetch(10, wait_seconds=0)

    reading.settle(reading.fetch(1, wait_seconds=0))

    assert _fetched(reading) == [(A, 0), (A, 1), (A, 2), (A, 3)]


def test_who_cannot_rewind_leaves_the_group_and_begins_at_what_is_committed(clients: list[Client]) -> None:
    QUEUE.extend(Message(A, offset) for offset in range(3))
    reading = Reader(group="fake", topics=[A])
    records = reading.fetch(2, wait_seconds=0)
    reading.mark_done(records[0])
    clients[0].refuses_to_seek = True

    reading.settle(records[1:])

    assert (clients[0].committed_offsets, clients[0].is_closed) == ({A: 1}, True)
    assert _fetched(reading)[0] == (A, 0)  # a new member, which this group has told nothing
    assert len(clients) == 2


def test_a_limit_leaves_the_rest_for_the_next_fetch(clients: list[Client]) -> None:
    QUEUE.extend(Message(A, offset) for offset in range(5))
    reading = Reader(group="fake", topics=[A])

    assert [_fetched(reading, 2) for _ in range(3)] == [[(A, 0), (A, 1)], [(A, 2), (A, 3)], [(A, 4)]]
