"""The CRM, as far as the demo needs one: it tells of a booking's deadline."""

from confluent_kafka import KafkaException, Producer

from contracts.base import Contract
from core.ids import new_id

_ACK_SECONDS = 15.0


def tell(*messages: Contract, bootstrap: str) -> None:
    """Put the messages on Kafka, in this order; raises KafkaException when that takes too long or is refused."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False, "acks": "all", "linger.ms": 0})
    refusals: list[KafkaException] = []
    for message in messages:
        message_id = str(new_id())
        headers = {
            "ce_specversion": "1.0",
            "ce_id": message_id,
            "ce_type": message.TOPIC,
            "ce_source": "/demo/crm",
            "ce_correlationid": message_id,
            "ce_tenantid": str(message.tenant_id),
            "content-type": "application/json",
        }
        producer.produce(
            message.TOPIC,
            message.to_json(),
            message.key,
            headers={name: text.encode() for name, text in headers.items()},
            on_delivery=lambda error, _message: refusals.append(KafkaException(error)) if error else None,
        )
    if left := producer.flush(_ACK_SECONDS):
        raise KafkaException(f"{left} messages of the CRM were not acknowledged")
    if refusals:
        raise refusals[0]
