"""What people may do with the outbox: look at it, retry a blocked key, skip the message that blocks it."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
from django.db import connection, transaction

from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from core import logs
from core.actors import Actor
from core.errors import NotFound, Refused, VersionConflict
from outbox.kafka import Sender
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked
from outbox.ownership import OWNERS
from outbox.publish import SHARDS, notify, shard_of
from outbox.queue import Row
from outbox.topics import DEAD_LETTER_SUFFIX

log = logs.get(__name__)

SKIP = "skip"
"""The verb of the audit line of a message that was given up: it is neither waiting nor was it published."""

_SHARDS = """
SELECT s.shard, count(r.id), (SELECT created_at FROM outbox_messages m WHERE m.id = min(r.id)),
       (SELECT count(*) FROM outbox_blocked_keys b WHERE b.shard = s.shard),
       (SELECT count(*) FROM outbox_blocked_keys b JOIN outbox_parked p USING (topic, key) WHERE b.shard = s.shard)
FROM generate_series(0, %s) AS s(shard) LEFT JOIN outbox_ready r ON r.shard = s.shard
GROUP BY s.shard ORDER BY s.shard
"""


class CannotDeadLetter(Refused):
    """The copy of a message to be skipped is refused by Kafka too, so nothing was skipped."""

    code = "cannot_dead_letter"


@dataclass(frozen=True, kw_only=True)
class ShardStatus:
    """One shard of the queue."""

    shard: int
    ready: int
    oldest_age_seconds: float
    owner_pid: int | None
    blocked_keys: int
    parked: int


def status(*, as_of: datetime.datetime) -> list[ShardStatus]:
    """Every shard; `owner_pid` is the backend of the relay that owns it, None while no relay does."""
    with connection.cursor() as cursor:
        cursor.execute(OWNERS)
        owners = dict(cursor.fetchall())
        cursor.execute(_SHARDS, [SHARDS - 1])
        return [
            ShardStatus(
                shard=shard,
                ready=ready,
                oldest_age_seconds=round((as_of - oldest_at).total_seconds(), 1) if oldest_at else 0.0,
                owner_pid=owners.get(shard),
                blocked_keys=blocked_keys,
                parked=parked,
            )
            for shard, ready, oldest_at, blocked_keys, parked in cursor.fetchall()
        ]


def blocked_keys() -> Iterator[dict[str, object]]:
    """Every blocked key with its error, the first parked message and the number of those that wait."""
    for blocked in OutboxBlockedKey.objects.order_by("blocked_at"):
        parked = OutboxParked.objects.filter(topic=blocked.topic, key=blocked.key)
        yield {
            "topic": blocked.topic,
            "key": blocked.key,
            "first_id": parked.order_by("id").values_list("id", flat=True).first(),
            "parked": parked.count(),
            "reason": blocked.reason,
            "error": blocked.error,
            "attempts": blocked.attempt_count,
            "blocked_at": blocked.blocked_at,
            "next_attempt_at": blocked.next_attempt_at,
        }


@transaction.atomic
def retry(topic: str | None = None, key: str | None = None, *, actor: Actor, by: str, as_of: datetime.datetime) -> int:
    """Make the next attempt due at once, of one blocked key or of all; the number of keys. Raises NotFound."""
    keys = OutboxBlockedKey.objects.all() if topic is None else OutboxBlockedKey.objects.filter(topic=topic, key=key)
    count = keys.update(next_attempt_at=as_of)
    if topic is not None and not count:
        raise NotFound(f"key {key} of {topic} is not blocked")
    parked = OutboxParked.objects.all() if topic is None else OutboxParked.objects.filter(topic=topic, key=key)
    first_ids = parked.order_by("topic", "key", "id").distinct("topic", "key").values("id")
    messages = OutboxMessage.objects.filter(id__in=first_ids)
    audit_log.record([_line(message, "retry", "Parked") for message in messages], actor=actor, as_of=as_of)
    log.warning("outbox retry asked for", by=by, topic=topic, key=key, key_count=count)
    transaction.on_commit(notify, robust=True)
    return count


@transaction.atomic(durable=True)
def skip(topic: str, key: str, *, actor: Actor, by: str, as_of: datetime.datetime, seen_id: int | None = None) -> int:
    """Give up the message that blocks the key, so that its followers go out; returns its outbox id.

    `seen_id` is the outbox id of the message that the person saw blocking it, if they say. A copy goes to the topic's
    dead-letter topic first, without its value where even that is refused. Raises NotFound, VersionConflict,
    CannotDeadLetter, or JobUnavailable.
    """
    blocked = OutboxBlockedKey.objects.select_for_update().filter(topic=topic, key=key)
    if (held := blocked.first()) is None or (first := _first_parked(topic, key)) is None:
        raise NotFound(f"key {key} of {topic} is not blocked")
    if seen_id is not None and seen_id != first.id:
        raise VersionConflict(f"key {key} of {topic} is blocked by message {first.id}, not {seen_id}")
    message = OutboxMessage.objects.filter(id=first.id).first()
    if message is None:
        raise NotFound(f"message {first.id} of key {key} of {topic} is gone; a retry frees the key of it")
    _dead_letter(message, reason=held.reason)
    first.delete()
    if OutboxParked.objects.filter(topic=topic, key=key).exists():
        blocked.update(next_attempt_at=as_of)
    else:
        blocked.delete()
    audit_log.record([_line(message, SKIP, "Skipped")], actor=actor, as_of=as_of)
    log.warning(
        "outbox message skipped", by=by, outbox_id=message.id, message_id=str(message.message_id), topic=topic, key=key
    )
    transaction.on_commit(notify, robust=True)
    return message.id


def _first_parked(topic: str, key: str) -> OutboxParked | None:
    return OutboxParked.objects.filter(topic=topic, key=key).order_by("id").first()


def _line(message: OutboxMessage, verb: str, to_status: str) -> Line:
    return Line(Aggregate.MESSAGE, message.message_id, message.tenant_id, verb, "Parked", to_status)


def _headers(message: OutboxMessage) -> dict[str, object]:
    """The message's own; where somebody has changed them into what Kafka can't take, its id alone."""
    try:
        headers = orjson.loads(message.headers)
    except ValueError:
        headers = None
    is_usable = isinstance(headers, dict) and all(isinstance(value, str) for value in headers.values())
    return headers if is_usable else {"ce_id": str(message.message_id), "dlt_headers": "omitted"}


def _dead_letter(message: OutboxMessage, *, reason: str) -> None:
    headers = {**_headers(message), "dlt_reason": reason, "dlt_topic": message.topic}
    copy = Row(
        id=message.id,
        shard=shard_of(message.key),
        topic=message.topic + DEAD_LETTER_SUFFIX,
        key=message.key,
        payload=message.payload,
        headers=orjson.dumps(headers).decode(),
    )
    bare = copy._replace(payload="", headers=orjson.dumps({**headers, "dlt_value": "omitted"}).decode())
    sender = Sender()
    try:
        sender.warm()
        if sender.send_one(copy, keep_going=lambda: True) and (
            refusal := sender.send_one(bare, keep_going=lambda: True)
        ):
            raise CannotDeadLetter(f"{copy.topic} does not take the copy: {refusal.error}")
    finally:
        sender.close()
