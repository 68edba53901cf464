"""Set-based statements: a list of rows goes to PostgreSQL as one JSON parameter, so a list of one is the same code.

Django's ORM stays the way to read and to define tables; it is passed by only where a change is written for many rows
in one round trip (docs/adr/0001).

The planner takes every such record set for a hundred rows and may read a whole table to join it; an UPDATE therefore
names the ids a second time, as `id = ANY(%s::uuid[])`, which it takes for few and looks up by the index.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypeVar

import orjson
from django.db import DEFAULT_DB_ALIAS, connection, connections
from psycopg import Cursor, pq

from core.errors import Inconsistent

Row = TypeVar("Row")
Params = Sequence[Any] | Mapping[str, Any]
Check = Callable[[int], None]


def as_json(rows: Iterable[object]) -> str:
    """The rows (dicts or dataclasses) as the text of one JSON array, for `jsonb_to_recordset(%s::jsonb)`."""
    return orjson.dumps(list(rows)).decode()


def array(items: Iterable[str]) -> str:
    """The texts of ids or numbers as that of one array, for `ANY(%s::uuid[])`: the driver takes twice as long over a
    list of them. Nothing is quoted."""
    return "{" + ",".join(items) + "}"


def columns(row_type: type, alias: str) -> str:
    """The dataclass's fields as a select list of that table alias, in order."""
    return ", ".join(f"{alias}.{field.name}" for field in fields(row_type))


def execute(sql: str, params: Params = ()) -> int:
    """Run one statement, or several; the number of rows that the last one touched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def expect(rows: int, *, of: str) -> Check:
    """A check for `write`: raises Inconsistent unless that many locked rows still were as they had been read."""

    def check(touched: int) -> None:
        if touched != rows:
            raise Inconsistent(f"{rows - touched} of {rows} {of} changed under their lock")

    return check


def _as_it_comes(_touched: int) -> None:
    """No number of rows is wrong."""


_batch: ContextVar[list[tuple[Any, Check]] | None] = ContextVar("batch", default=None)


def write(sql: str, params: Params, *, check: Check = _as_it_comes) -> None:
    """Run one statement; `check` gets the number of rows that it touched and raises when that is not as it must be."""
    cursor = _cursor(pq.Format.TEXT)
    cursor.execute(sql, params)
    batch = _batch.get()
    if batch is None:
        check(cursor.rowcount)
    else:
        batch.append((cursor, check))


@contextmanager
def batched() -> Iterator[None]:
    """Within the block `write` does not wait for the server, which works while the next statement is made ready.

    What the server or a check has to say about any of them is raised at the end of the block at the latest. Only
    `write` is for such a block.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    batch: list[tuple[Any, Check]] = []
    token = _batch.set(batch)
    try:
        with database.wrap_database_errors, database.connection.pipeline():
            yield
    finally:
        _batch.reset(token)
    for cursor, check in batch:
        check(cursor.rowcount)


def fetch(sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
    """All rows of one query."""
    with _cursor(pq.Format.BINARY) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def read(row_type: type[Row], sql: str, params: Sequence[Any] = ()) -> list[Row]:
    """All rows of one query, each as a `row_type` whose fields are the columns in order."""
    return [row_type(*row) for row in fetch(sql, params)]


def _cursor(results: pq.Format) -> Any:
    """The driver's own cursor in Django's wrapper.

    It sends parameters apart from the statement, where Django's writes them into it, and so lets PostgreSQL keep what
    it has understood of a statement that comes again. Binary results spare a regular expression an instant.
    """
    database = connections[DEFAULT_DB_ALIAS]  # looked up once: through `connection`, each attribute is a look-up
    database.close_if_health_check_failed()  # as Django's own way to a cursor does
    database.ensure_connection()
    driver = Cursor(database.connection)
    driver.format = results
    wrap = database.make_debug_cursor if database.queries_logged else database.make_cursor
    return wrap(driver)  # type: ignore[arg-type]  # the stubs expect the wrapper that it makes
