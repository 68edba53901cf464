"""The whole stored state, with what differs from one run to the next (ids, instants) taken out, so that it compares."""

import re
from collections import Counter, defaultdict
from functools import cache

from core import sql

_KEPT = ("django_migrations", "django_content_type", "auth_permission")
_RECORDS = ("job_runs",)
"""What workers note about themselves, one row a cycle: a death more is a row more."""
_VARYING = ("id", "group_id", "shard", "attempts", "attempt_count", "error")
_PLACEHOLDERS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "#"),
    (re.compile(r"[0-9a-f]{64}"), "#"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "@"),
)

State = dict[str, Counter[str]]


def read() -> State:
    """Every table's rows, each as text; tables without rows are left out."""
    rows = " UNION ALL ".join(
        f"SELECT '{table}', left((to_jsonb(t) - %(varying)s::text[])::text, 4000) FROM \"{table}\" AS t"
        for table in _tables()
        if table not in _RECORDS
    )
    state: State = defaultdict(Counter)
    for table, text in sql.fetch(rows, {"varying": list(_VARYING)}):
        state[table][_settled(text)] += 1
    return dict(state)


def clear() -> None:
    """Delete every row that is not of the installation itself."""
    deletions = "; ".join(f'DELETE FROM "{table}"' for table in _tables())
    # As a replica: there is no order to keep among foreign keys.
    sql.execute(f"SET session_replication_role = replica; {deletions}; SET session_replication_role = DEFAULT")


def difference(one: State, other: State) -> str:
    """What only one of them has, for people."""
    tables = sorted(table for table in one.keys() | other.keys() if one.get(table) != other.get(table))
    none: Counter[str] = Counter()
    return "; ".join(
        f"{table}: -{list((one.get(table, none) - other.get(table, none)).elements())[:2]}"
        f" +{list((other.get(table, none) - one.get(table, none)).elements())[:2]}"
        for table in tables
    )


@cache
def _tables() -> list[str]:
    found = sql.fetch(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s) ORDER BY 1",
        [list(_KEPT)],
    )
    return [table for (table,) in found]


def _settled(text: str) -> str:
    for pattern, placeholder in _PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text
