"""Fixtures that every package of tests may need."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from core.ids import new_id
from dev.apache_kafka import ApacheKafka
from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from outbox import topics
from tests import kafka_reader, servers
from tests.kafka_writer import Writer
from workers.topics import ensure


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what talks to a broker, so that `make test-kafka` can run just that on Apache Kafka."""
    for item in items:
        if {"bootstrap", "embedded_kafka"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")


@pytest.fixture(scope="session")
def bootstrap() -> str:
    """The brokers of this session, as host:port."""
    return os.environ["KAFKA_BOOTSTRAP_SERVERS"]


@pytest.fixture
def group_prefix(bootstrap: str, settings: Any) -> str:
    """Consumer groups of this test's own, which begin where the topics end now."""
    ensure(topics.names())
    prefix = f"test-{new_id()}-"
    for name in ("notifications", "crm-sync"):
        kafka_reader.skip_history(bootstrap, topics.names(), group=prefix + name)
    settings.ENV = settings.ENV.model_copy(update={"kafka_consumer_group_prefix": prefix})
    return prefix


@pytest.fixture
def writer(bootstrap: str, group_prefix: str) -> Writer:
    """What it writes, those groups read."""
    return Writer(bootstrap)


@pytest.fixture
def embedded_postgres(pytestconfig: pytest.Config) -> Iterator[EmbeddedPostgres]:
    """The session's PostgreSQL, to be restarted or killed by the test; it runs again afterwards."""
    if (postgres := servers.of(pytestconfig).postgres) is None:
        pytest.skip("DATABASE_URL names a server that is not ours to stop")
    yield postgres
    postgres.start()


@pytest.fixture
def embedded_kafka(pytestconfig: pytest.Config) -> Iterator[EmbeddedKafka | ApacheKafka]:
    """The session's broker, to be stopped by the test; it runs again afterwards (the embedded one empty)."""
    if (kafka := servers.of(pytestconfig).kafka) is None:
        pytest.skip("KAFKA_BOOTSTRAP_SERVERS names a broker that is not ours to stop")
    yield kafka
    kafka.start()
