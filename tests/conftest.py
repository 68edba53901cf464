"""Fixtures that every package of tests may need."""

import os
from collections.abc import Iterator

import pytest

from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from tests import servers


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
def embedded_kafka(pytestconfig: pytest.Config) -> Iterator[EmbeddedKafka]:
    """The session's broker, to be stopped by the test; it runs again afterwards, empty."""
    if (kafka := servers.of(pytestconfig).kafka) is None:
        pytest.skip("KAFKA_BOOTSTRAP_SERVERS names a broker that is not ours to stop")
    yield kafka
    kafka.start()
