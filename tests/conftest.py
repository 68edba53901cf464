"""Fixtures that every package of tests may need."""

import os
from collections.abc import Iterator

import pytest

from dev.apache_kafka import ApacheKafka
from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from tests import servers


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
