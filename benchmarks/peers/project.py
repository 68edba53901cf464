"""A project that uses django-reliable-outbox, run by a Python that has it: `tell COUNT`, then `publish`."""

import os
import sys
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings


def configure() -> None:
    """As the package's documentation has it."""
    at = urlsplit(os.environ["DATABASE_URL"])
    settings.configure(
        INSTALLED_APPS=["reliable_outbox"],
        USE_TZ=True,
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
        RELIABLE_OUTBOX={
            "DESTINATIONS": {
                "default": {
                    "BACKEND": "reliable_outbox.destinations.kafka.KafkaDestination",
                    "OPTIONS": {
                        "topic": os.environ["TOPIC"],
                        "config": {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]},
                    },
                }
            }
        },
    )
    django.setup()


def tell(count: int) -> int:
    """Messages of about 600 bytes and a thousand keys, told a hundred a transaction."""
    from django.core.management import call_command
    from django.db import transaction
    from reliable_outbox import publish

    call_command("migrate", verbosity=0)
    for first in range(0, count, 100):
        with transaction.atomic():
            for number in range(first, min(first + 100, count)):
                publish(
                    "event.changed", {"version": number // 1_000, "filling": "x" * 400}, key=f"key-{number % 1_000}"
                )
    return count


def publish_all() -> int:
    """One worker until nothing is due."""
    from django.core.management import call_command
    from reliable_outbox.models import OutboxMessage

    call_command("outbox_worker", burst=True)
    return int(OutboxMessage.objects.filter(status="delivered").count())


if __name__ == "__main__":
    configure()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(f"{tell(int(sys.argv[2])) if sys.argv[1] == 'tell' else publish_all()}\n")
