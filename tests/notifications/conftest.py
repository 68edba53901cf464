"""People with addresses, a mail server, and the consumer in this process."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from core.ids import new_id
from notifications.job import NotificationsJob
from outbox import topics
from tests import kafka_reader
from tests.kafka_writer import Writer
from tests.notifications.mail_server import MailServer, mail_server
from workers.topics import ensure


@pytest.fixture
def mails(settings: Any) -> Iterator[MailServer]:
    """A mail server, to which this process sends."""
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        yield server


@pytest.fixture
def group_prefix(bootstrap: str, settings: Any) -> str:
    """Groups of this test's own, which begin where the topics end now."""
    ensure(topics.names())
    prefix = f"test-{new_id()}-"
    for name in ("notifications", "crm-sync"):
        kafka_reader.skip_history(bootstrap, topics.names(), group=prefix + name)
    settings.ENV = settings.ENV.model_copy(update={"kafka_consumer_group_prefix": prefix})
    return prefix


@pytest.fixture
def writer(bootstrap: str, group_prefix: str) -> Writer:
    return Writer(bootstrap)


@pytest.fixture
def job(group_prefix: str) -> Iterator[NotificationsJob]:
    with closing(NotificationsJob()) as made:
        yield made
