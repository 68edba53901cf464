"""Which messages have been handled: at-least-once delivery, exactly one effect."""

import datetime
from uuid import UUID

from django.conf import settings

from core import sql

_PURGE_BATCH = 5_000
_MARGIN = datetime.timedelta(days=7)


def claim(message_id: UUID, *, consumer: str, as_of: datetime.datetime) -> bool:
    """Note, in the transaction of its effect, that the consumer handles the message; False when it has before.

    Waits for a transaction that handles the same message at this moment.
    """
    return bool(
        sql.execute(
            """
            INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES (%s, %s, %s)
            ON CONFLICT (consumer, message_id) DO NOTHING
            """,
            [consumer, message_id, as_of],
        )
    )


def purge(*, as_of: datetime.datetime) -> int:
    """Forget messages that no topic holds any more: a week above the longest retention; the number forgotten."""
    kept_from = as_of - datetime.timedelta(hours=settings.ENV.kafka_topic_retention_hours) - _MARGIN
    total = 0
    while True:
        forgotten = sql.execute(
            """
            DELETE FROM processed_messages WHERE id IN (
                SELECT id FROM processed_messages WHERE processed_at < %s ORDER BY processed_at LIMIT %s
                FOR UPDATE SKIP LOCKED
            )
            """,
            [kept_from, _PURGE_BATCH],
        )
        total += forgotten
        if forgotten < _PURGE_BATCH:
            return total
