"""What has become of a message: read from where it waits, since a message itself is never updated."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from audit.models import Aggregate, AuditLine
from outbox.models import OutboxMessage, OutboxParked, OutboxReady
from outbox.operations import SKIP
from outbox.publish import SHARDS


class State(StrEnum):
    """`Blocking` is the first parked message of its key, `Parked` one that waits behind it."""

    WAITING = "Waiting"
    PUBLISHED = "Published"
    BLOCKING = "Blocking"
    PARKED = "Parked"
    SKIPPED = "Skipped"


def annotated(messages: QuerySet[OutboxMessage]) -> QuerySet[OutboxMessage]:
    """The messages with what `of` looks at; the subqueries run for the rows that are read, by index."""
    ready = OutboxReady.objects.filter(shard__in=range(SHARDS), id=OuterRef("id"))
    parked = OutboxParked.objects.filter(id=OuterRef("id"))
    first = OutboxParked.objects.filter(topic=OuterRef("topic"), key=OuterRef("key")).order_by("id").values("id")[:1]
    skipped = AuditLine.objects.filter(aggregate=Aggregate.MESSAGE, aggregate_id=OuterRef("message_id"), verb=SKIP)
    return messages.annotate(
        is_waiting=Exists(ready), is_parked=Exists(parked), first_parked_id=Subquery(first), is_skipped=Exists(skipped)
    )


def of_each(ids: Iterable[int]) -> dict[int, State]:
    """The states of these messages, with one query."""
    return {message.id: of(message) for message in annotated(OutboxMessage.objects.filter(id__in=list(ids)))}


def of(message: Any) -> State:
    """The state of a message read through `annotated`."""
    if message.is_waiting:
        return State.WAITING
    if message.is_parked:
        return State.BLOCKING if message.first_parked_id == message.id else State.PARKED
    return State.SKIPPED if message.is_skipped else State.PUBLISHED
