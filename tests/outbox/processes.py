"""Relays as real processes on the test's database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from dev.processes import die_with_parent, kill
from outbox.ownership import OWNERS
from tests.workers.processes import database_url

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def relay_process(*flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """`run_outbox_relay` with short intervals and bursts, of which many follow on each other; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run_outbox_relay", "--interval", "0.1", "--batch-size", "50", *flags],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url(), "LOG_LEVEL": "WARNING", "OUTBOX_RETENTION_DAYS": "3650"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only)
    )
    try:
        yield process
    finally:
        kill(process)


def end_sessions() -> None:
    """End the database sessions of all relays, as a fail-over does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
            " WHERE application_name LIKE 'outbox relay%' AND datname = current_database()"
        )


def owners() -> dict[int, int]:
    """The database session that owns each shard, of the shards that have an owner."""
    with connection.cursor() as cursor:
        cursor.execute(OWNERS)
        return dict(cursor.fetchall())
