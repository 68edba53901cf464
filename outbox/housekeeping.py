"""Forgetting what was published long ago. What is ready or parked is never touched, however old."""

import datetime

from django.conf import settings
from django.db import connection, transaction

from core import logs
from outbox.ownership import LOCKS, PURGE
from outbox.publish import SHARDS

log = logs.get(__name__)

BATCH = 5_000

# Ids grow with time, so the old ones are in front: a batch without an old one is where the purge ends.
_BATCH = """
WITH batch AS MATERIALIZED (
    SELECT id, created_at FROM outbox_messages WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
), gone AS (
    DELETE FROM outbox_messages m USING batch
    WHERE m.id = batch.id AND batch.created_at < %(before)s
      AND NOT EXISTS (SELECT 1 FROM outbox_ready r WHERE r.id = m.id AND r.shard = ANY(%(shards)s))
      AND NOT EXISTS (SELECT 1 FROM outbox_parked p WHERE p.id = m.id)
    RETURNING m.id
)
SELECT (SELECT count(*) FROM gone), max(id), count(*) FILTER (WHERE created_at < %(before)s) FROM batch
"""


class Purge:
    """A purge in steps, so that the relay can publish between two of them."""

    def __init__(self) -> None:
        self._after: int | None = None
        self._deleted = 0

    @property
    def is_running(self) -> bool:
        return self._after is not None

    def start(self) -> None:
        """From the oldest message on."""
        self._after, self._deleted = 0, 0

    def break_off(self) -> None:
        """Until the next start."""
        self._after = None

    def step(self, *, as_of: datetime.datetime) -> int:
        """Delete what is too old among the next BATCH messages; the number deleted."""
        if self._after is None:
            return 0
        deleted, last, old = purge_batch(as_of=as_of, after=self._after)
        self._deleted += deleted
        self._after = last if old else None
        if self._after is None and self._deleted:
            log.info("outbox purged", deleted_count=self._deleted)
        return deleted


def purge_batch(*, as_of: datetime.datetime, after: int) -> tuple[int, int, int]:
    """Delete the published messages older than OUTBOX_RETENTION_DAYS among the next BATCH.

    Returns the number deleted, the last id looked at, and how many of those looked at were old.
    """
    before = as_of - datetime.timedelta(days=settings.ENV.outbox_retention_days)
    with transaction.atomic(), connection.cursor() as cursor:
        # One purge at a time: a second one would only wait for the first one's rows.
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCKS, PURGE])
        if not cursor.fetchone()[0]:
            return 0, after, 0
        cursor.execute(_BATCH, {"after": after, "limit": BATCH, "before": before, "shards": list(range(SHARDS))})
        deleted, last, old = cursor.fetchone()
    return deleted, last or after, old
