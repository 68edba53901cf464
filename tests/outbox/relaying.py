"""Telling facts, and relays that publish them in this process."""

import datetime
from collections.abc import Iterable

from django.db import connection, transaction

from contracts.base import Message
from contracts.calendar import EventStatusChanged
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.publish import publish
from outbox.relay import RelayJob, RelayResult
from tests import kafka_reader
from tests.keep_going import always
from tests.outbox.messages import NOON
from tests.waiting import eventually

TOPIC = EventStatusChanged.TOPIC


def tell(messages: Iterable[Message]) -> None:
    """Publish in a transaction that owns an xid, as one that has locked its aggregate does."""
    with transaction.atomic():
        own_an_xid()
        publish(messages, as_of=NOON)


def own_an_xid() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")


def relay_all(relay: RelayJob, *, limit: int = 2_000, as_of: datetime.datetime = NOON) -> RelayResult:
    """One cycle of the relay, which publishes until nothing publishable is left."""
    return relay.cycle(as_of=as_of, limit=limit, keep_going=always)


def relay_the_rest(relay: RelayJob) -> None:
    """Publish until nothing is left, parked messages too, which are due at once; as soon as Kafka takes them."""

    def nothing_is_left() -> bool:
        OutboxBlockedKey.objects.update(next_attempt_at=NOON)
        relay_all(relay)
        return not (OutboxReady.objects.exists() or OutboxParked.objects.exists() or OutboxBlockedKey.objects.exists())

    eventually(nothing_is_left, "nothing is left", timeout=20)


def versions(bootstrap: str, key: object, *, topic: str = TOPIC) -> list[int]:
    """What consumers have seen of the key: the aggregate versions, in order, repeats too."""
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [topic]), key)
    return [record.value["aggregateVersion"] for record in records]


def poison(key: object, *, version: int = 1) -> str:
    """Make this message of the key too large for Kafka; returns what its payload was, for `heal`."""
    message = OutboxMessage.objects.get(key=str(key), payload__contains=f'"aggregateVersion":{version},')
    OutboxMessage.objects.filter(id=message.id).update(payload=message.payload + " " * 1_000_000)
    return message.payload


def heal(payload: str) -> None:
    OutboxMessage.objects.filter(payload__startswith=payload).update(payload=payload)
