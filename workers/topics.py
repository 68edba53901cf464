"""Making topics; the broker itself never makes one by the way."""

from collections.abc import Iterable
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from django.conf import settings

from workers.job import JobUnavailable
from workers.kafka import client_settings, describe

# The broker compares whole batches, the client single messages with their headers; the topic's limit is above both.
HEADER_ALLOWANCE_BYTES = 65_536
_TIMEOUT_SECONDS = 15


def ensure(topics: Iterable[str]) -> list[str]:
    """Make the topics that do not exist, with the settings' partitions, replication and retention; returns those made.

    A topic that exists is left as it is. Raises JobUnavailable when the broker is away or refuses.
    """
    wanted = list(topics)
    admin = AdminClient(client_settings())
    try:
        existing = admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
        missing = [topic for topic in wanted if topic not in existing]
        if not missing:
            return []
        creations = admin.create_topics([_new(topic) for topic in missing], operation_timeout=_TIMEOUT_SECONDS)
        return [topic for topic in missing if _is_made(creations[topic])]
    except KafkaException as error:
        raise JobUnavailable(f"Kafka: {describe(error.args[0])}") from error


def _new(topic: str) -> NewTopic:
    environment = settings.ENV
    return NewTopic(
        topic,
        num_partitions=environment.kafka_topic_partitions,
        replication_factor=environment.kafka_topic_replication,
        config={
            "retention.ms": str(environment.kafka_topic_retention_hours * 3_600_000),
            "cleanup.policy": "delete",
            "max.message.bytes": str(environment.outbox_max_message_bytes + 2 * HEADER_ALLOWANCE_BYTES),
        },
    )


def _is_made(creation: Future[None]) -> bool:
    """False when someone else was faster."""
    try:
        creation.result(_TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True
