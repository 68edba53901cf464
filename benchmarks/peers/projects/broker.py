"""Kafka, for packages that leave it to their users to send."""

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.peers.projects.django_project import SERVERS, TOPIC

_producer = Producer({"bootstrap.servers": SERVERS})


def connect() -> None:
    """The first message need not wait for it then."""
    _producer.list_topics(TOPIC, timeout=30)


def send(key: str, value: bytes) -> None:
    """One message, which the broker has when this returns."""
    refused: list[KafkaError] = []

    def hear(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    _producer.produce(TOPIC, value, key, on_delivery=hear)
    left = _producer.flush(30)
    if left or refused:
        raise RuntimeError(f"not sent: {refused or 'no answer'}")
