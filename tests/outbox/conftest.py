"""Topics, and a relay that runs in this process."""

from collections.abc import Iterator

import pytest

from outbox import topics
from outbox.relay import RelayJob


@pytest.fixture
def kafka_topics(bootstrap: str) -> str:
    """The topics exist; the brokers' address."""
    topics.ensure(topics.names())
    return bootstrap


@pytest.fixture
def relay(kafka_topics: str) -> Iterator[RelayJob]:
    job = RelayJob()
    yield job
    job.close()
