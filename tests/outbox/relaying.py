"""Telling facts, and relays that publish them in this process."""

from collections.abc import Iterable

from django.db import connection, transaction

from contracts.base import Message
from outbox.publish import publish
from outbox.relay import RelayJob, RelayResult
from tests.outbox.messages import NOON


def tell(messages: Iterable[Message]) -> None:
    """Publish in a transaction that owns an xid, as one that has locked its aggregate does."""
    with transaction.atomic():
        own_an_xid()
        publish(messages, as_of=NOON)


def own_an_xid() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")


def always() -> bool:
    return True


def relay_all(relay: RelayJob, *, limit: int = 2_000) -> RelayResult:
    """One cycle of the relay, which publishes until nothing publishable is left."""
    return relay.cycle(as_of=NOON, limit=limit, keep_going=always)
