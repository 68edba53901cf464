"""The benchmarks' PostgreSQL: durable as in production; each measurement has a database of its own, a copy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from core import sql
from dev.apache_kafka import ApacheKafka
from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from dev.workspace import Workspace

# fsync, full_page_writes and synchronous_commit stay on. Room enough that no checkpoint falls into a measurement.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """The variables that name the servers: those of the environment, or embedded ones for as long as the block runs.

    With `EMBEDDED_KAFKA=apache` in the environment the broker is Apache Kafka itself.
    """
    with Workspace("bench") as workspace:
        names = ("DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_PROFILE")
        named = {name: os.environ[name] for name in names if name in os.environ}
        is_apache = os.environ.get("EMBEDDED_KAFKA") == "apache"
        postgres = EmbeddedPostgres(workspace, settings=SETTINGS)
        kafka = ApacheKafka(workspace) if is_apache else EmbeddedKafka(workspace)
        try:
            if "DATABASE_URL" not in named:
                named["DATABASE_URL"] = postgres.start()
            if "KAFKA_BOOTSTRAP_SERVERS" not in named:
                profile = "kafka" if is_apache else "embedded"
                named |= {"KAFKA_BOOTSTRAP_SERVERS": kafka.start(), "KAFKA_PROFILE": profile}
            yield named
        finally:
            kafka.stop()
            postgres.stop()


def broker() -> str:
    """What stands behind KAFKA_BOOTSTRAP_SERVERS, for those whose figures depend on it."""
    if os.environ.get("KAFKA_PROFILE") == "embedded":
        return "the embedded one, in memory"
    return "Apache Kafka, one node, beside the rest" if "EMBEDDED_KAFKA" in os.environ else "that of the environment"


def use(name: str) -> None:
    """Django's connection leads to that database from now on."""
    connection.close()
    connection.settings_dict["NAME"] = name


@contextmanager
def template(name: str) -> Iterator[None]:
    """A migrated database of that name to be filled in the block; afterwards it is settled and ready to be copied."""
    home = str(connection.settings_dict["NAME"])
    _make(name, of=home)
    use(name)
    sql.execute("SET statement_timeout = 0")
    sql.execute("SET idle_in_transaction_session_timeout = 0")
    try:
        yield
        sql.execute("VACUUM (ANALYZE)")
    finally:
        use(home)


@contextmanager
def bare(*tables: str) -> Iterator[None]:
    """Millions of rows go into tables without indexes and keys in minutes; after the block all these are made anew."""
    named = {"tables": list(tables)}
    keys = sql.fetch(
        """
        SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contype IN ('f', 'p', 'u', 'x') AND ARRAY[conrelid, confrelid] && %(tables)s::regclass[]::oid[]
        ORDER BY contype <> 'f'
        """,
        named,
    )
    for table, key, _ in keys:
        sql.execute(f"ALTER TABLE {table} DROP CONSTRAINT {key}")
    indexes = sql.fetch(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = ANY(%(tables)s::regclass[])",
        named,
    )
    for index, _ in indexes:
        sql.execute(f"DROP INDEX {index}")
    yield
    sql.execute("SET maintenance_work_mem = '1GB'")
    for _, definition in indexes:
        sql.execute(definition)
    for table, key, definition in reversed(keys):
        sql.execute(f"ALTER TABLE {table} ADD CONSTRAINT {key} {definition}")


@contextmanager
def copy(of: str) -> Iterator[None]:
    """A fresh copy of a template, in use for the block, with its pages in memory and nothing left to be written."""
    home, name = str(connection.settings_dict["NAME"]), f"{of}_copy"
    _make(name, of=of)
    sql.execute("CHECKPOINT")
    use(name)
    try:
        yield
    finally:
        use(home)
        drop(name)


def drop(name: str) -> None:
    sql.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _make(name: str, *, of: str) -> None:
    """From a database that has no other sessions, so from a connection to another one."""
    home = str(connection.settings_dict["NAME"])
    use("template1")
    sql.execute("SET statement_timeout = 0")
    drop(name)
    sql.execute(f'CREATE DATABASE "{name}" TEMPLATE "{of}" STRATEGY wal_log')
    use(home)
