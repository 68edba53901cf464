"""Messages that a consumer can't handle, put aside so that their partition goes on."""

from confluent_kafka import KafkaError, KafkaException, Producer
from django.conf import settings

from workers import topics
from workers.job import JobUnavailable
from workers.kafka import client_settings, describe, is_outage
from workers.records import Record
from workers.topics import HEADER_ALLOWANCE_BYTES

_ACK_SECONDS = 10.0
_LONGEST_ERROR = 500


def topic_for(topic: str, *, group: str) -> str:
    return f"{topic}.{group}.dlt"


class DeadLetters:
    """Copies records to the dead-letter topics of a consumer group, which it makes when they are needed."""

    def __init__(self, *, group: str) -> None:
        self._group = group
        self._producer: Producer | None = None
        self._made: set[str] = set()
        self._error: KafkaError | None = None

    def put(self, record: Record, *, reason: str, error: str) -> None:
        """Returns once the copy is acknowledged; raises JobUnavailable. After a crash a copy may be there twice.

        A record that only fits without its value is put aside without it: its place says where the whole one is.
        """
        topic = topic_for(record.topic, group=self._group)
        if topic not in self._made:
            topics.ensure([topic])
            self._made.add(topic)
        notes = {
            "dlt_topic": record.topic,
            "dlt_partition": str(record.partition),
            "dlt_offset": str(record.offset),
            "dlt_group": self._group,
            "dlt_reason": reason,
            "dlt_error": error[:_LONGEST_ERROR],
        }
        headers = record.headers | {name: text.encode() for name, text in notes.items()}
        refusal = self._send(topic, record, value=record.value, headers=headers)
        if refusal is not None:
            refusal = self._send(topic, record, value=None, headers=headers | {"dlt_value": b"omitted"})
        if refusal is not None:
            raise JobUnavailable(f"{topic} takes no dead letter: {describe(refusal)}")

    def close(self) -> None:
        """Let go of the producer; nothing is in it."""
        self._producer = None

    def _send(self, topic: str, record: Record, *, value: bytes | None, headers: dict[str, bytes]) -> KafkaError | None:
        """None when acknowledged, or why Kafka refuses. Raises JobUnavailable when it is away."""
        producer = self._producer = self._producer or Producer(_producer_settings())
        self._error = None
        try:
            producer.produce(topic, value, record.key, headers=dict(headers), on_delivery=self._settle)
        except KafkaException as error:
            self._error = error.args[0]
        else:
            if producer.flush(_ACK_SECONDS):
                self._error = KafkaError(KafkaError._MSG_TIMED_OUT)
        if self._error is not None and is_outage(self._error):
            producer.purge()
            self._producer = None
            raise JobUnavailable(f"Kafka: {describe(self._error)}")
        return self._error

    def _settle(self, error: KafkaError | None, _message: object) -> None:
        self._error = error


def _producer_settings() -> dict[str, object]:
    """One message at a time, each waited for, so nothing is gained by idempotence."""
    return {
        **client_settings(),
        "acks": "all",
        "partitioner": "murmur2_random",
        "linger.ms": 0,
        "message.max.bytes": settings.ENV.outbox_max_message_bytes + 2 * HEADER_ALLOWANCE_BYTES,
        "delivery.timeout.ms": round(1_000 * _ACK_SECONDS),
        "allow.auto.create.topics": False,
    }
