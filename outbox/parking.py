"""Keys that a message holds back: the message and its followers wait apart from the queue, in order, for a retry.

The relay parks and retries under the shard's lock; people list, retry and skip from any process. Whoever sends or skips
a parked message holds the row lock of its blocked key meanwhile.
"""

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from outbox import queue
from outbox.kafka import Refusal
from outbox.queue import Row, Session

_FIRST_WAIT = datetime.timedelta(seconds=5)
_LONGEST_WAIT = datetime.timedelta(minutes=15)
_ERROR_LENGTH = 500

_BLOCK = """
INSERT INTO outbox_blocked_keys AS b
    (topic, key, shard, reason, error, attempt_count, blocked_at, next_attempt_at)
VALUES (%(topic)s, %(key)s, %(shard)s, %(reason)s, %(error)s, 1, %(as_of)s, %(as_of)s + %(first_wait)s)
ON CONFLICT (topic, key) DO UPDATE SET
    reason = excluded.reason, error = excluded.error, attempt_count = b.attempt_count + 1,
    next_attempt_at = %(as_of)s + least(%(first_wait)s * power(2, least(b.attempt_count, 20)), %(longest_wait)s)
"""
# A key that a person has in hand is left alone with all its rows: some parked and some not would lose their order.
_LOCK_HELD = """
SELECT b.topic, b.key FROM unnest(%s::text[], %s::text[]) AS wanted(topic, key)
JOIN outbox_blocked_keys AS b ON b.topic = wanted.topic AND b.key = wanted.key
FOR SHARE OF b SKIP LOCKED
"""
_HOLD = f"""
WITH held AS (DELETE FROM outbox_ready WHERE ctid = ANY({queue.PLACES}) RETURNING id)
INSERT INTO outbox_parked (id, topic, key, parked_at)
SELECT held.id, m.topic, m.key, %(as_of)s
FROM held CROSS JOIN LATERAL (SELECT topic, key FROM outbox_messages WHERE id = held.id LIMIT 1) AS m
ON CONFLICT (id) DO NOTHING
"""
_DUE = """
SELECT topic, key, shard FROM outbox_blocked_keys
WHERE next_attempt_at <= %s AND shard = ANY(%s) ORDER BY next_attempt_at LIMIT %s
"""
_LOCK = "SELECT 1 FROM outbox_blocked_keys WHERE topic = %s AND key = %s FOR UPDATE SKIP LOCKED"
_PARKED = """
SELECT p.id, %(shard)s::smallint, m.topic, m.key, m.payload, m.headers, true, m.topic IS NULL
FROM (
    SELECT id FROM outbox_parked WHERE topic = %(topic)s AND key = %(key)s ORDER BY id LIMIT %(limit)s
) AS p
LEFT JOIN LATERAL (SELECT topic, key, payload, headers FROM outbox_messages WHERE id = p.id LIMIT 1) AS m ON true
ORDER BY p.id
"""
_UNPARK = "DELETE FROM outbox_parked WHERE id = ANY(%s)"
_UNBLOCK = """
DELETE FROM outbox_blocked_keys b WHERE topic = %(topic)s AND key = %(key)s
  AND NOT EXISTS (SELECT 1 FROM outbox_parked p WHERE p.topic = b.topic AND p.key = b.key)
"""


class BlockedKey(NamedTuple):
    """A key of a topic that is held back."""

    topic: str
    key: str
    shard: int


def block(session: Session, row: Row, refusal: Refusal, *, as_of: datetime.datetime) -> None:
    """The row could not be published: its key waits, longer after each attempt."""
    session.execute(
        _BLOCK,
        {
            "topic": row.topic,
            "key": row.key,
            "shard": row.shard,
            "reason": refusal.reason,
            "error": refusal.error[:_ERROR_LENGTH],
            "as_of": as_of,
            "first_wait": _FIRST_WAIT,
            "longest_wait": _LONGEST_WAIT,
        },
    )


def hold(session: Session, rows: Sequence[Row], *, as_of: datetime.datetime) -> int:
    """Move rows out of the queue whose keys are still blocked, and in nobody else's hand; the number moved."""
    keys = list({(row.topic, row.key) for row in rows})
    with session.transaction():
        locked = set(session.execute(_LOCK_HELD, [[topic for topic, _ in keys], [key for _, key in keys]]).fetchall())
        held = [row for row in rows if (row.topic, row.key) in locked]
        return session.execute(_HOLD, {**queue.places(held), "as_of": as_of}).rowcount if held else 0


def due(session: Session, *, shards: Sequence[int], as_of: datetime.datetime, limit: int) -> list[BlockedKey]:
    """The keys whose next attempt is due, the longest overdue first."""
    return [BlockedKey._make(row) for row in session.execute(_DUE, [as_of, list(shards), limit]).fetchall()]


def lock(session: Session, blocked: BlockedKey) -> bool:
    """Take the blocked key for this transaction; False when it is not blocked any more, or in another hand."""
    return session.execute(_LOCK, [blocked.topic, blocked.key]).fetchone() is not None


def parked(session: Session, blocked: BlockedKey, *, limit: int) -> list[Row]:
    """The first parked messages of the key, in id order."""
    parameters: dict[str, Any] = {**blocked._asdict(), "limit": limit}
    return [Row._make(row) for row in session.execute(_PARKED, parameters).fetchall()]


def release(session: Session, blocked: BlockedKey, rows: Sequence[Row]) -> None:
    """The rows are published or skipped; the key is free once none is left."""
    session.execute(_UNPARK, [[row.id for row in rows]])
    session.execute(_UNBLOCK, {"topic": blocked.topic, "key": blocked.key})
