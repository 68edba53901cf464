"""Set-based statements: a list of rows goes to PostgreSQL as one JSON parameter, so a list of one is the same code.

Django's ORM stays the way to read and to define tables; it is passed by only where a change is written for many rows
in one round trip (docs/adr: set-based writes).

The planner takes every such record set for a hundred rows and may read a whole table to join it; an UPDATE therefore
names the ids a second time, as `id = ANY(%s)`, whose number it knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import orjson
from django.db import connection
from psycopg import Cursor, pq

Row = TypeVar("Row")


def as_json(rows: Iterable[object]) -> str:
    """The rows (dicts or dataclasses) as the text of one JSON array, for `jsonb_to_recordset(%s::jsonb)`."""
    return orjson.dumps(list(rows)).decode()


def columns(row_type: type, alias: str) -> str:
    """The dataclass's fields as a select list of that table alias, in order."""
    return ", ".join(f"{alias}.{field.name}" for field in fields(row_type))


def execute(sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> int:
    """Run one statement; the number of rows that it touched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def fetch(sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of one query."""
    connection.ensure_connection()
    # The driver's own cursor with binary results: Django's reads every instant with a regular expression, which costs
    # the workers more than the rest of a row.
    driver = Cursor(connection.connection)
    driver.format = pq.Format.BINARY
    wrap = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    with wrap(driver) as cursor:  # type: ignore[arg-type]  # the stubs expect the wrapper that it makes
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def read(row_type: type[Row], sql: str, params: Sequence[Any] = ()) -> list[Row]:
    """All rows of one query, each as a `row_type` whose fields are the columns in order."""
    return [row_type(*row) for row in fetch(sql, params)]
