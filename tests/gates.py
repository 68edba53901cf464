"""Stopping a session at a chosen statement, by triggers in the test's database: production code knows nothing of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from core import sql
from tests.waiting import eventually
from tests.workers.processes import database_url

NAME = "at-the-gate"
"""The `application_name` of the sessions that stop, unless the gate names another; set by PIN_PROCESS_NAME."""
_KEY = 4_711


class Gate:
    """A closed gate; whoever is named so waits before it until it is opened."""

    def __init__(self, control: "psycopg.Connection[tuple[int]]", *, name: str) -> None:
        self._control = control
        self._name = name

    def wait_until_reached(self) -> int:
        """Wait until a session stands before the gate; the process of PostgreSQL that serves it."""

        def waiting() -> list[tuple[int]]:
            return sql.fetch(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND %s = ANY(pg_blocking_pids(pid))",
                [self._name, self._control.info.backend_pid],
            )

        [(pid,)] = eventually(waiting, "a session reaches the gate", timeout=20)
        return pid

    def open(self) -> None:
        """Let through who waits, and all who come."""
        self._control.execute("SELECT pg_advisory_unlock_all()")


@contextmanager
def gate(*points: str, visit: int = 1, name: str = NAME) -> Iterator[Gate]:
    """A gate before the `visit`-th of these statements, such as "UPDATE appointments" or "INSERT outbox_messages".

    "EACH INSERT some_table" counts rows, "COMMIT some_table" is within the commit of a transaction that inserted there,
    and counts rows too. On leaving the block the gate is opened and taken away.
    """
    with psycopg.connect(database_url(), autocommit=True) as control:
        control.execute("SET lock_timeout = '20s'")
        control.execute("SELECT pg_advisory_lock(%s)", [_KEY])
        control.execute("CREATE SEQUENCE gate_visits")
        control.execute(
            SQL(
                """
                CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF current_setting('application_name') = {name} AND nextval('gate_visits') = {visit} THEN
                        PERFORM pg_advisory_xact_lock_shared({key});
                    END IF;
                    RETURN NEW;
                END $$
                """
            ).format(name=Literal(name), visit=Literal(visit), key=Literal(_KEY))
        )
        closed = Gate(control, name=name)
        try:
            for point in points:
                control.execute(_trigger(point))
            yield closed
        finally:
            closed.open()
            control.execute("DROP FUNCTION wait_at_gate CASCADE")
            control.execute("DROP SEQUENCE gate_visits")


def _trigger(point: str) -> SQL | psycopg.sql.Composed:
    *words, table = point.split()
    when = {
        ("INSERT",): "TRIGGER gate BEFORE INSERT ON {} FOR EACH STATEMENT",
        ("UPDATE",): "TRIGGER gate BEFORE UPDATE ON {} FOR EACH STATEMENT",
        ("DELETE",): "TRIGGER gate BEFORE DELETE ON {} FOR EACH STATEMENT",
        ("EACH", "INSERT"): "TRIGGER gate BEFORE INSERT ON {} FOR EACH ROW",
        ("COMMIT",): "CONSTRAINT TRIGGER gate AFTER INSERT ON {} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW",
    }[tuple(words)]
    return SQL("CREATE " + when + " EXECUTE FUNCTION wait_at_gate()").format(Identifier(table))
