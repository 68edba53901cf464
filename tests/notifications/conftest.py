"""People with addresses, a mail server, and the consumer in this process."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from notifications.job import NotificationsJob
from tests.notifications.mail_server import MailServer, mail_server


@pytest.fixture
def mails(settings: Any) -> Iterator[MailServer]:
    """A mail server, to which this process sends."""
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        yield server


@pytest.fixture
def job(group_prefix: str) -> Iterator[NotificationsJob]:
    with closing(NotificationsJob()) as made:
        yield made
