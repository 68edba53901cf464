"""Which relay publishes which shard: session advisory locks, shared out fairly among the relays that live.

PostgreSQL frees a session's locks when the session ends, so a dead relay's shards are there for the others at once.
"""

from typing import Any

import psycopg

from outbox.publish import SHARDS

LOCKS = 0x6F757462
"""The first key of the outbox's advisory locks; the second is the shard, or one of those below."""
_PRESENCE = 100  # held by every relay, shared: who counts its holders knows how many live
PURGE = 101
"""Held by who purges."""

_LIVING = f"""
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND classid = {LOCKS} AND objid = {_PRESENCE} AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
OWNERS = f"""
SELECT objid::int, pid FROM pg_locks
WHERE locktype = 'advisory' AND classid = {LOCKS} AND objid < {_PRESENCE} AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Ownership:
    """The shards that a session owns; it lives as long as the session."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self._session = session
        self._seen_elsewhere: set[int] = set()
        self.shards: set[int] = set()
        session.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, {_PRESENCE})")

    def rebalance(self) -> tuple[set[int], int]:
        """Give back what is over the fair share, or take what is free up to it.

        Returns the shards gained, and how many of them another relay had owned.
        """
        share = -(-SHARDS // max(1, self._number(_LIVING)))
        for shard in sorted(self.shards)[share:]:
            self._session.execute(f"SELECT pg_advisory_unlock({LOCKS}, {shard})")
            self.shards.remove(shard)
        gained = set()
        for shard in range(SHARDS):
            if len(self.shards) >= share:
                break
            if shard not in self.shards:
                if self._number(f"SELECT pg_try_advisory_lock({LOCKS}, {shard})::int"):
                    self.shards.add(shard)
                    gained.add(shard)
                else:
                    self._seen_elsewhere.add(shard)
        taken_over = len(gained & self._seen_elsewhere)
        self._seen_elsewhere -= gained
        return gained, taken_over

    def _number(self, statement: str) -> int:
        row = self._session.execute(statement).fetchone()
        return int(row[0]) if row else 0
