"""Topics, and relays that run in this process."""

import pytest

from outbox import topics


@pytest.fixture
def kafka_topics(bootstrap: str) -> str:
    """The topics exist; the brokers' address."""
    topics.ensure(topics.names())
    return bootstrap
