"""A project that uses django-jaiminho with its strategy that leaves all messages to the relay."""

import json
from typing import Any

from jaiminho.send import save_to_outbox

from benchmarks.peers.projects import broker, django_project


@save_to_outbox  # type: ignore[untyped-decorator]  # the package has no types
def send(payload: dict[str, Any], *, key: str) -> None:
    broker.send(key, json.dumps(payload).encode())


def configure() -> None:
    django_project.configure("jaiminho", JAIMINHO_CONFIG={"DELETE_AFTER_SEND": True, "PUBLISH_STRATEGY": "keep-order"})
    broker.connect()


def tell(count: int) -> int:
    return django_project.tell(count, by=lambda key, payload: send(payload, key=key))


def publish() -> int:
    """One round of the relay."""
    from django.core.management import call_command
    from jaiminho.models import Event

    before = Event.objects.count()
    call_command("events_relay")
    return int(before - Event.objects.count())
