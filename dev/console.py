"""`python -m dev.console`: prints the calendar's messages as they arrive on Kafka; of older ones it says how many."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from contracts.calendar import PUBLISHED
from core.ids import new_id

_TOPICS = tuple(message.TOPIC for message in PUBLISHED)
_TELLING_FIELDS = ("status", "reason", "slotOutcome", "outcome", "offsetMinutes")
_SLICE_SECONDS = 0.2
_METADATA_SECONDS = 15.0
_READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Received:
    """A message as a consumer sees it; a repeat has the same `message_id`."""

    topic: str
    key: str
    message_id: str
    value: dict[str, Any]

    @property
    def summary(self) -> str:
        """The topic's middle and what the message tells in words, such as `appointment-cancelled Expired Released`."""
        told = [str(self.value[name]) for name in _TELLING_FIELDS if name in self.value]
        return " ".join([self.topic.removeprefix("pin.calendar.").removesuffix(".v1"), *told])


class Reader:
    """Reads all topics from their beginnings, in no consumer group. Close it after use."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"demo-console-{new_id()}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 50,
            }
        )
        known = self._consumer.list_topics(timeout=_METADATA_SECONDS).topics
        self._partitions = {(topic, p) for topic in _TOPICS if topic in known for p in known[topic].partitions}
        self._ends: set[tuple[str | None, int | None]] = set()
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for topic, p in self._partitions])

    def read(self) -> Iterator[Received]:
        """What has come, after a short wait when there is nothing. Raises KafkaException."""
        for message in self._consumer.consume(500, timeout=_SLICE_SECONDS):
            if (error := message.error()) is None:
                yield _received(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends.add((message.topic(), message.partition()))
            else:
                raise KafkaException(error)

    def read_to_end(self, *, timeout: float) -> list[Received]:
        """Everything that is there now, for a reader that has read nothing yet. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        received: list[Received] = []
        while self._ends < self._partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the topics were not read to their ends within {timeout:g} s")
            received += self.read()
        return received

    def close(self) -> None:
        self._consumer.close()


def without_repeats(received: Iterable[Received]) -> list[Received]:
    """The first delivery of each message."""
    first: dict[str, Received] = {}
    for message in received:
        first.setdefault(message.message_id, message)
    return list(first.values())


def _received(message: Any) -> Received:
    headers = {name: value.decode() for name, value in message.headers() or []}
    return Received(
        topic=message.topic(),
        key=message.key().decode(),
        message_id=headers.get("ce_id", ""),
        value=orjson.loads(message.value()),
    )


def main(arguments: Sequence[str]) -> int:
    """The module's command line: no arguments, the broker from KAFKA_BOOTSTRAP_SERVERS."""
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if arguments or not bootstrap:
        print(f"{__doc__}\nKAFKA_BOOTSTRAP_SERVERS names the broker; there are no arguments.", file=sys.stderr)
        return 2
    reader = Reader(bootstrap)
    try:
        print(f"{len(reader.read_to_end(timeout=_READ_SECONDS))} messages were there; waiting for more", flush=True)
        while True:
            for received in reader.read():
                print(f"{received.summary}  key={received.key} ce_id={received.message_id}", flush=True)
    except KeyboardInterrupt:
        return 0
    except (KafkaException, TimeoutError) as error:
        print(f"Kafka: {error}", file=sys.stderr)
        return 1
    finally:
        reader.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
