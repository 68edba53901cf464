"""Proving the invariants against one snapshot of the database."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from core import sql
from ops.invariants import INVARIANTS, Invariant

FIRST_FAULTS = 5
# Messages near the end of their retention may be gone already: clocks of machines differ a little.
_CLOCK_DIFFERENCE = datetime.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Fault:
    id: str
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one invariant's query found: how many rows it judged, how many break it, and the first of them."""

    invariant: Invariant
    checked_count: int
    violation_count: int
    first_faults: tuple[Fault, ...]

    @property
    def is_violated(self) -> bool:
        return self.violation_count > 0 and not self.invariant.warns_only


@contextmanager
def snapshot() -> Iterator[None]:
    """One state of the whole database for the block, which can't write and may take its time."""
    with transaction.atomic(durable=True):
        sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        sql.execute("SET LOCAL statement_timeout = 0")
        sql.execute("SET LOCAL work_mem = '64MB'")
        sql.execute("SET LOCAL jit = off")
        sql.fetch("SELECT 1 FROM pg_class LIMIT 1")  # takes the snapshot, so that an as_of read now is not before it
        yield


def check(*, as_of: datetime.datetime) -> Iterator[Finding]:
    """The findings of all invariants, one by one, in the transaction that is open (see `snapshot`)."""
    retention = datetime.timedelta(days=settings.ENV.outbox_retention_days)
    params = {"as_of": as_of, "told_from": as_of - retention + _CLOCK_DIFFERENCE}
    for invariant in INVARIANTS:
        yield _judge(invariant, params)


def _judge(invariant: Invariant, params: dict[str, Any]) -> Finding:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT count(*), count(fault),
                   (array_agg(id::text) FILTER (WHERE fault IS NOT NULL))[1:{FIRST_FAULTS}],
                   (array_agg(fault) FILTER (WHERE fault IS NOT NULL))[1:{FIRST_FAULTS}]
            FROM ({invariant.sql}) AS judged
            """,
            params,
        )
        checked, violations, ids, faults = cursor.fetchall()[0]
    first = tuple(Fault(id_, what) for id_, what in zip(ids or (), faults or (), strict=True))
    return Finding(invariant, checked, violations, first)
