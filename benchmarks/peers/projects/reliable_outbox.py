"""A project that uses django-reliable-outbox."""

from typing import Any

from benchmarks.peers.projects import django_project
from benchmarks.peers.projects.django_project import SERVERS, TOPIC

_DESTINATION = {
    "BACKEND": "reliable_outbox.destinations.kafka.KafkaDestination",
    "OPTIONS": {"topic": TOPIC, "config": {"bootstrap.servers": SERVERS}},
}


def configure() -> None:
    django_project.configure("reliable_outbox", RELIABLE_OUTBOX={"DESTINATIONS": {"default": _DESTINATION}})


def tell(count: int) -> int:
    from reliable_outbox import publish

    def by(key: str, payload: dict[str, Any]) -> None:
        publish("event.changed", payload, key=key)

    return django_project.tell(count, by=by)


def publish() -> int:
    """One worker until nothing is due."""
    from django.core.management import call_command
    from reliable_outbox.models import OutboxMessage

    call_command("outbox_worker", burst=True)
    return int(OutboxMessage.objects.filter(status="delivered").count())
