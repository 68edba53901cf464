"""Telling a fact: the one way of the calendar context to Kafka. The relay sends what was written here.

Order: the caller holds the row lock of the aggregate that the key names, so ids are drawn in commit order within a key.
Completeness: the relay's floor waits for every transaction that owns an xid, so a transaction must own one before it
draws an outbox id; the statement below refuses otherwise (locking or writing the aggregate assigns it).
"""

import datetime
import time
import zlib
from collections.abc import Iterable
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection, transaction

from contracts.base import Message
from core import sql, tracing
from core.clock import iso
from core.correlation import correlation_id
from core.ids import new_id_text

SHARDS = 8
CHANNEL = "outbox_ready"
SOURCE = "/pin/calendar"
# At most one NOTIFY a process and this long. What is published within it after a NOTIFY is covered by the relay, which
# reads once more this long after each wake-up: a trailing edge without a thread and a connection in every process.
NOTIFY_EVERY_SECONDS = 0.005


class NoTransaction(Exception):
    """`publish` was called outside of a transaction, or in one that has not locked or written its aggregate yet."""


class MessageTooLarge(Exception):
    """The message is over OUTBOX_MAX_MESSAGE_BYTES: an error of the change that publishes it."""


# `rows` is read twice, so it is computed once; the gate is evaluated before the first id is drawn.
_INSERT = """
WITH rows AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row(
        n integer, shard smallint, message_id uuid, dedup_key text, topic text, key text, contract_version smallint,
        payload text, headers text, tenant_id uuid)
    WHERE pg_current_xact_id_if_assigned() IS NOT NULL
), told AS (
    INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers, tenant_id,
                                 correlation_id, traceparent, created_at)
    SELECT message_id, dedup_key, topic, key, contract_version, payload, headers, tenant_id, %s::uuid, %s::text,
           %s::timestamptz
    FROM rows ORDER BY n
    RETURNING id, message_id
)
INSERT INTO outbox_ready (shard, id) SELECT rows.shard, told.id FROM told JOIN rows USING (message_id)
"""


def publish(messages: Iterable[Message], *, as_of: datetime.datetime) -> None:
    """Write the messages, in their order, with the change that they tell: all of them commit with it, or none.

    Raises NoTransaction or MessageTooLarge; django's IntegrityError (`uq_outbox_messages_told_once`) when a fact was
    told before. The relay is woken after the commit.
    """
    if not connection.in_atomic_block:
        raise NoTransaction("publish() belongs into the transaction of the change that it tells")
    told_in, trace = correlation_id(), tracing.traceparent()
    limit = settings.ENV.outbox_max_message_bytes
    rows = [_row(message, n, correlation=told_in, trace=trace, max_bytes=limit) for n, message in enumerate(messages)]
    if not rows:
        return
    sql.write(_INSERT, [sql.as_json(rows), told_in, trace, as_of], check=_refuse_nothing_written)
    transaction.on_commit(notify, robust=True)


def _refuse_nothing_written(written: int) -> None:
    if not written:
        raise NoTransaction("publish() needs a transaction that has already locked or written its aggregate")


def shard_of(key: str) -> int:
    """The shard whose relay publishes the messages of this key."""
    return zlib.crc32(key.encode()) % SHARDS


def _row(message: Message, n: int, *, correlation: UUID, trace: str | None, max_bytes: int) -> dict[str, object]:
    payload, key, topic = message.to_json(), message.key, message.TOPIC
    size = len(payload) if payload.isascii() else len(payload.encode())
    if size > max_bytes:
        raise MessageTooLarge(f"{topic} of key {key} has {size} bytes, more than {max_bytes}")
    message_id, tenant_id = new_id_text(), message.tenant_id
    headers: dict[str, object] = {
        "ce_specversion": "1.0",
        "ce_id": message_id,
        "ce_type": topic,
        "ce_source": SOURCE,
        "ce_time": iso(message.occurred_at),
        "ce_subject": key,
        "content-type": "application/json",
        "ce_correlationid": correlation,
        "ce_tenantid": tenant_id,
    }
    if trace is not None:
        headers["traceparent"] = trace
    return {
        "n": n,
        "shard": shard_of(key),
        "message_id": message_id,
        "dedup_key": message.dedup_key,
        "topic": topic,
        "key": key,
        "contract_version": message.contract_version,
        "payload": payload,
        "headers": orjson.dumps(headers).decode(),
        "tenant_id": tenant_id,
    }


_last_notify = -NOTIFY_EVERY_SECONDS


def notify() -> None:
    """Wake the relays, unless this process has done so within NOTIFY_EVERY_SECONDS. Called by `publish` after commit.

    In a statement of its own: inside the transaction a NOTIFY makes all writers commit one after the other.
    """
    global _last_notify  # noqa: PLW0603  (one throttle a process; a race between threads costs one NOTIFY more)
    instant = time.monotonic()
    if instant - _last_notify < NOTIFY_EVERY_SECONDS:
        return
    _last_notify = instant
    sql.write(f"NOTIFY {CHANNEL}", ())
