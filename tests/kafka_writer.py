"""Puts messages on Kafka as the relay, or another context's producer, would."""

from collections.abc import Iterable
from uuid import UUID

from confluent_kafka import Producer

from contracts.base import Contract
from core.ids import new_id
from tests.kafka_client import settings_for

_ANY_PARTITION = -1


class Writer:
    """Writes with one producer; each call returns once all is acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({**settings_for(bootstrap), "linger.ms": 0, "acks": "all"})

    def tell(self, *messages: Contract, message_ids: Iterable[UUID] = (), partition: int | None = 0) -> list[UUID]:
        """Each message under a new id, or the given ones; returns the ids. By default all go to one partition."""
        ids = [*message_ids] or [new_id() for _ in messages]
        for message, message_id in zip(messages, ids, strict=True):
            headers = {
                "ce_specversion": "1.0",
                "ce_id": str(message_id),
                "ce_type": message.TOPIC,
                "ce_source": "/test",
                "ce_correlationid": str(message_id),
                "ce_tenantid": str(message.tenant_id),
                "content-type": "application/json",
            }
            self.put(message.TOPIC, message.to_json(), key=message.key, headers=headers, partition=partition)
        return ids

    def put(
        self, topic: str, value: str | bytes, *, key: str, headers: dict[str, str], partition: int | None = 0
    ) -> None:
        """A record as it is; without a partition its key decides."""
        encoded = {name: text.encode() for name, text in headers.items()}
        place = _ANY_PARTITION if partition is None else partition
        self._producer.produce(topic, value, key, headers=dict(encoded), partition=place)
        assert self._producer.flush(10) == 0
