"""The topics of the calendar context, made by `ensure_topics` and never by the broker itself."""

from collections.abc import Iterable
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from django.conf import settings

from contracts.calendar import PUBLISHED
from outbox.kafka import HEADER_ALLOWANCE_BYTES, client_settings
from workers.job import JobUnavailable

DEAD_LETTER_SUFFIX = ".dlt"
_TIMEOUT_SECONDS = 15


def names() -> list[str]:
    """Every topic that is published to, and the dead-letter topic of each, where skipped messages go."""
    topics = [message.TOPIC for message in PUBLISHED]
    return topics + [topic + DEAD_LETTER_SUFFIX for topic in topics]


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
        raise JobUnavailable(f"Kafka: {error.args[0].str()}") from error


def _new(topic: str) -> NewTopic:
    environment = settings.ENV
    # Above what the producer lets pass, which is above what publish() lets pass.
    largest = environment.outbox_max_message_bytes + 2 * HEADER_ALLOWANCE_BYTES
    return NewTopic(
        topic,
        num_partitions=environment.kafka_topic_partitions,
        replication_factor=environment.kafka_topic_replication,
        config={
            "retention.ms": str(environment.kafka_topic_retention_hours * 3_600_000),
            "cleanup.policy": "delete",
            "max.message.bytes": str(largest),
        },
    )


def _is_made(creation: Future[None]) -> bool:
    """False when another ensure_topics was faster."""
    try:
        creation.result(_TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True
