"""The ready queue as its owner sees it: read in id order above the floor, delete what the broker has acknowledged."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from core import sql
from outbox.floor import Horizon

Session = psycopg.Connection[Any]


class Row(NamedTuple):
    """A message to be sent; `headers` is the JSON object of the Kafka headers.

    `is_missing`: somebody has deleted the message by hand, and this is what is left of it.
    """

    id: int
    shard: int
    topic: str
    key: str
    payload: str
    headers: str
    is_blocked: bool = False
    is_missing: bool = False


# The planner knows nothing of a queue that was empty when it was last analysed, nor of what comes after it has settled
# for a plan. Only index scans in id order are good here: any other plan reads, or sorts, the whole backlog and all that
# was deleted. So nothing else is allowed, and joins are spelled as look-ups, row by row.
_PLAN = "; ".join(
    f"SET {name} = off"
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort", "jit")
)
# A lost acknowledgement is a repeated message, as after any crash; waiting for the disk would buy nothing.
_DURABILITY = "SET synchronous_commit = off"

_LAST_ID_AND_NEXT_XID = "SELECT coalesce((SELECT max(id) FROM outbox_messages), 0), pg_current_xact_id()::text::bigint"
PLACES = """ARRAY(
    SELECT place FROM unnest(%(shards)s::smallint[], %(ids)s::bigint[]) AS wanted(shard, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS place FROM outbox_ready WHERE shard = wanted.shard AND id = wanted.id LIMIT 1
    ) AS found
)"""
"""Where the rows of the queue are; its rows never move, and only the owner of their shard deletes them."""
_ACKNOWLEDGE = f"WITH gone AS (DELETE FROM outbox_ready WHERE ctid = ANY({PLACES})) {_LAST_ID_AND_NEXT_XID}"


def prepare(session: Session) -> None:
    """Set a fresh session up for the statements of this module."""
    session.execute(f"{_PLAN}; SET max_parallel_workers_per_gather = 0; {_DURABILITY}")


def oldest_running_xid(session: Session) -> int:
    """For `Floor.settle`, before the next `read`."""
    return _one(session.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint", prepare=True))[0]


def horizon(session: Session) -> Horizon:
    """The last committed id, and an xid assigned after it was seen."""
    max_id, next_xid = _one(session.execute(_LAST_ID_AND_NEXT_XID))
    return Horizon(max_id=max_id, next_xid=next_xid)


def read(session: Session, *, shards: Iterable[int], above: int, limit: int) -> list[Row]:
    """The first `limit` unpublished messages of the shards, in id order. Within a key none is left out."""
    owned = sorted(shards)
    if not owned:
        return []
    return _rows(session.execute(read_statement(owned), reading(above=above, limit=limit), prepare=True))


@contextmanager
def reading_ahead(
    session: Session, *, shards: Iterable[int], above: int, in_hand: Sequence[Row]
) -> Iterator[Callable[[], list[Row]]]:
    """While the block runs, the server reads as many rows as are in hand, beside those; what is yielded takes them.

    As for `read`, none of a key is left out: looking only behind those in hand would miss a lower id that was committed
    since. Nothing else can use the session meanwhile.
    """
    parameters = reading(above=above, limit=len(in_hand), in_hand=in_hand)
    with session.pipeline():
        cursor = session.execute(read_statement(sorted(shards)), parameters, prepare=True)
        yield lambda: _rows(cursor)


def reading(*, above: int, limit: int, in_hand: Sequence[Row] = ()) -> dict[str, Any]:
    """The parameters of `read_statement`."""
    return {
        "above": above,
        "limit": limit,
        "looked_at": limit + len(in_hand),
        "in_hand": sql.array([str(row.id) for row in in_hand]),
    }


def read_statement(shards: Sequence[int]) -> str:
    """A merge of the shards' index scans, which stops at the limit."""
    # Without an order and a limit of its own each branch would be read to its end, and sorted. The ids in hand are
    # left out by a hash table: as a list they would be compared one by one with each row.
    queue = " UNION ALL ".join(
        f"(SELECT id, shard FROM outbox_ready WHERE shard = {shard} AND id > %(above)s::bigint "
        "ORDER BY id LIMIT %(looked_at)s)"
        for shard in shards
    )
    return f"""
        SELECT r.id, r.shard, m.topic, m.key, m.payload, m.headers, b.found IS NOT NULL, m.topic IS NULL
        FROM (
            SELECT id, shard FROM (
                SELECT id, shard FROM ({queue}) AS ready ORDER BY id LIMIT %(looked_at)s
            ) AS ready
            WHERE id NOT IN (SELECT unnest(%(in_hand)s::bigint[]))
            ORDER BY id LIMIT %(limit)s
        ) AS r
        LEFT JOIN LATERAL (
            SELECT topic, key, payload, headers FROM outbox_messages WHERE id = r.id LIMIT 1
        ) AS m ON true
        LEFT JOIN LATERAL (
            SELECT true AS found FROM outbox_blocked_keys WHERE topic = m.topic AND key = m.key LIMIT 1
        ) AS b ON true
        ORDER BY r.id
    """


def acknowledge(session: Session, rows: Sequence[Row]) -> Horizon:
    """Delete the rows from the queue; the horizon is what the floor may aim for next."""
    max_id, next_xid = _one(session.execute(_ACKNOWLEDGE, places(rows), prepare=True))
    return Horizon(max_id=max_id, next_xid=next_xid)


def places(rows: Sequence[Row]) -> dict[str, str]:
    """The parameters of PLACES; arrays as text, which is quicker to write than the lists are for the driver."""
    return {"shards": sql.array([str(row.shard) for row in rows]), "ids": sql.array([str(row.id) for row in rows])}


def _rows(cursor: psycopg.Cursor[Any]) -> list[Row]:
    return [Row._make(row) for row in cursor.fetchall()]


def _one(cursor: psycopg.Cursor[Any]) -> tuple[int, ...]:
    row: tuple[int, ...] = cursor.fetchall()[0]
    return row
