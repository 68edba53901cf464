"""What every client of Kafka is given, and telling an outage from a refusal."""

import logging
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from django.conf import settings

_CHECK_SECONDS = 2.0

# What says that the broker, or the way to it, is at fault: hold everything and try again. Local errors are too, but for
# those about a topic or a message.
_OUTAGES = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.STALE_CTRL_EPOCH,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.NOT_CONTROLLER,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.PRODUCER_FENCED,
    }
)
_LOCAL_REFUSALS = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._INVALID_ARG})


def client_settings() -> dict[str, Any]:
    """What every client is given."""
    return {
        "bootstrap.servers": settings.ENV.kafka_bootstrap_servers,
        "socket.keepalive.enable": True,
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 2_000,
        "logger": logging.getLogger("kafka"),
        **_security(),
    }


def _security() -> dict[str, Any]:
    env = settings.ENV
    protocol = env.kafka_security_protocol
    chosen: dict[str, Any] = {"security.protocol": protocol}
    if protocol.endswith("SSL") and env.kafka_ssl_ca_location:
        chosen["ssl.ca.location"] = env.kafka_ssl_ca_location
    if protocol.startswith("SASL"):
        chosen |= {
            "sasl.mechanism": env.kafka_sasl_mechanism,
            "sasl.username": env.kafka_sasl_username,
            "sasl.password": env.kafka_sasl_password.get_secret_value(),
        }
    return chosen


def is_embedded() -> bool:
    """Whether the broker is the embedded one of demo and tests, which needs settings of its own."""
    return bool(settings.ENV.kafka_profile == "embedded")


def is_outage(error: KafkaError) -> bool:
    """True when no message is to blame."""
    code = error.code()
    if error.fatal() or code in _OUTAGES:
        return True
    return code < KafkaError.UNKNOWN and code not in _LOCAL_REFUSALS


def describe(error: KafkaError) -> str:
    return f"{error.name()}: {error.str()}"


def check() -> None:
    """For readiness: returns when a broker answers, raises otherwise."""
    AdminClient(client_settings()).list_topics(timeout=_CHECK_SECONDS)
