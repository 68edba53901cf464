"""Commands of manage.py as real processes on the test's database."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
import psycopg
from django.core.management import call_command

from core import sql
from tests.dev.processes import ROOT
from tests.waiting import eventually
from tests.workers.processes import Worker, database_url

TIMEOUT, DISPATCH = "run_appointment_timeout", "run_reminder_dispatch"


def start(command: str, *flags: str, **environ: str) -> "subprocess.Popen[str]":
    """The command, started; on the test's database unless `environ` says otherwise."""
    return subprocess.Popen(
        [sys.executable, "manage.py", command, *flags],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url(), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(command: str, *flags: str, **environ: str) -> Iterator[Worker]:
    """The command as long as the block lasts; its lines of stdout and of its log are collected. Killed at the end."""
    process = start(command, *flags, **environ)
    worker = Worker(process)
    try:
        yield worker
    finally:
        process.kill()
        worker.end(timeout=20)


def run_to_end(command: str, *flags: str, **environ: str) -> tuple[int, Worker]:
    """The exit code and what was said of a command that ends by itself."""
    with running(command, *flags, **environ) as worker:
        return worker.end(timeout=120), worker


def result_of(worker: Worker) -> dict[str, Any]:
    """What `--once` printed: one JSON line, and nothing else."""
    [line] = worker.said
    return orjson.loads(line)


def run_here(command: str, *flags: str) -> dict[str, Any]:
    """What the command prints with `--once`, run in this process, which starts sooner."""
    out = io.StringIO()
    call_command(command, "--once", *flags, stdout=out)
    return orjson.loads(out.getvalue())


def run_together(count: int, command: str, *flags: str, waiting_for: str) -> list[dict[str, Any]]:
    """So many processes that begin their work in one moment; what each printed.

    The table `waiting_for`, which the command reads first, is locked until all of them wait for it.
    """
    with ExitStack() as stack:
        with _locked(waiting_for):
            workers = [
                stack.enter_context(running(command, *flags, LOG_LEVEL="WARNING", DATABASE_LOCK_TIMEOUT_MS="0"))
                for _ in range(count)
            ]
            eventually(lambda: _count_waiting_for(waiting_for) == count, f"all wait for {waiting_for}", timeout=60)
        codes = [worker.end(timeout=300) for worker in workers]
        assert codes == [0] * count, [worker.logged for worker in workers]
        assert [worker.logged for worker in workers] == [[]] * count
        return [result_of(worker) for worker in workers]


@contextmanager
def _locked(table: str) -> Iterator[None]:
    with psycopg.connect(database_url()) as holder:
        holder.execute(f"LOCK TABLE {table}".encode())
        yield


def _count_waiting_for(table: str) -> int:
    query = "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
    [(count,)] = sql.fetch(query, [table])
    return count


def sessions(name: str) -> int:
    """How many sessions of PostgreSQL have this `application_name` (PIN_PROCESS_NAME of a process)."""
    [(count,)] = sql.fetch("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name])
    return count
