"""What the Django projects have in common: settings, and the messages that they tell."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

TOPIC = os.environ["TOPIC"]
SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
_KEYS = 1_000
_FILLING = "x" * 550


def configure(app: str, **more: Any) -> None:
    """A project with that app, on the database of the environment."""
    at = urlsplit(os.environ["DATABASE_URL"])
    settings.configure(
        INSTALLED_APPS=[app],
        USE_TZ=True,
        SECRET_KEY="of a benchmark",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": at.path.removeprefix("/"),
                "USER": at.username,
                "PASSWORD": unquote(at.password or ""),
                "HOST": at.hostname,
                "PORT": at.port,
            }
        },
        **more,
    )
    django.setup()


def tell(count: int, *, by: Callable[[str, dict[str, Any]], object]) -> int:
    """Tables, and messages of about 600 bytes and a thousand keys, told a hundred a transaction."""
    from django.core.management import call_command
    from django.db import transaction

    call_command("migrate", verbosity=0)
    for first in range(0, count, 100):
        with transaction.atomic():
            for number in range(first, min(first + 100, count)):
                by(f"key-{number % _KEYS}", {"aggregateVersion": number // _KEYS + 1, "filling": _FILLING})
    return count
