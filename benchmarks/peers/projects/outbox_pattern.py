"""A project that uses django-outbox-pattern, with Kafka in place of the STOMP broker that it was written for."""

from typing import Any

from benchmarks.peers.projects import broker, django_project


class Connection:
    """What the package asks of a connection of stomp.py."""

    def __init__(self, **_where: Any) -> None:
        self._is_connected = False

    def connect(self, **_credentials: Any) -> None:
        self._is_connected = True

    def is_connected(self) -> bool:
        return self._is_connected

    def disconnect(self) -> None:
        self._is_connected = False

    def send(self, *, destination: str, body: str, headers: dict[str, Any]) -> None:
        """To the topic of the benchmark; the headers name the key."""
        broker.send(headers["key"], body.encode())


def configure() -> None:
    django_project.configure(
        "django_outbox_pattern",
        DJANGO_OUTBOX_PATTERN={
            "DEFAULT_CONNECTION_CLASS": f"{__name__}.Connection",
            "DEFAULT_PRODUCER_WAITING_TIME": 0,
        },
    )
    broker.connect()


def tell(count: int) -> int:
    from django_outbox_pattern.models import Published

    def by(key: str, payload: dict[str, Any]) -> None:
        Published.objects.create(destination=django_project.TOPIC, body=payload, headers={"key": key})

    return django_project.tell(count, by=by)


def publish() -> int:
    """One round of the package's `publish` command, which has no end of its own."""
    from django_outbox_pattern.choices import StatusChoice
    from django_outbox_pattern.factories import factory_producer
    from django_outbox_pattern.models import Published

    factory_producer().publish_message_from_database()
    return int(Published.objects.filter(status=StatusChoice.SUCCEEDED).count())
