"""Exit 0 within five seconds of SIGTERM, whatever the worker is doing: real processes, real signals."""

import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection

from core import clock
from dev.postgres import EmbeddedPostgres
from tests.waiting import eventually
from tests.workers.processes import Worker, database_url, running
from workers.models import JobRun, Outcome

pytestmark = pytest.mark.django_db(transaction=True)

_LIMIT = 5.0
_NAME = "stopped-worker"


@contextmanager
def _worker(*flags: str, **environ: str) -> Iterator[Worker]:
    with running(*flags, PIN_PROCESS_NAME=_NAME, **environ) as worker:
        yield worker
    with connection.cursor() as cursor:  # what a frozen server has not noticed yet must not be seen by the next test
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", [_NAME]
        )


def _stop(worker: Worker, *, signum: int = signal.SIGTERM) -> int:
    """Signal the worker; its exit code, once it has ended within the limit."""
    asked_at = time.monotonic()
    worker.process.send_signal(signum)
    code = worker.end(timeout=30)
    assert time.monotonic() - asked_at < _LIMIT
    return code


def _active_backend() -> int:
    """The process of PostgreSQL that runs the worker's statement, once there is one."""

    def pids() -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state = 'active'", [_NAME])
            return [pid for (pid,) in cursor.fetchall()]

    return eventually(pids, "the worker's statement runs", timeout=30)[0]


@contextmanager
def _frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_asleep(signum: int) -> None:
    with _worker("--does", "work", "--interval", "3600") as worker:
        worker.wait_for_event("cycle completed")
        assert _stop(worker, signum=signum) == 0
        assert worker.events()[-1] == "worker stopped"


def test_in_back_off() -> None:
    with _worker("--does", "be_unavailable", "--interval", "3600") as worker:
        worker.wait_for_event("cycle failed")
        assert _stop(worker) == 0


def test_a_cycle_that_is_stopped_tells_what_it_did() -> None:
    with _worker("--does", "count_until_stopped") as worker:
        worker.wait_for_word("working")
        assert _stop(worker) == 0

    run = JobRun.objects.get()
    assert run.outcome == Outcome.STOPPED
    assert run.counts["doneCount"] > 0
    assert "cycle stopped" in worker.events()


def test_a_statement_that_hangs_is_cancelled_and_is_no_error_of_its_item() -> None:
    with _worker("--does", "hang_in_an_item") as worker:
        _active_backend()
        assert _stop(worker) == 0

    assert worker.said == ["working"]
    assert "cancelling the running statement" in worker.events()
    assert worker.events(level="error") == []


def test_with_once_a_stop_still_prints_the_result_and_exits_0() -> None:
    with _worker("--does", "hang_in_an_item", "--once") as worker:
        _active_backend()
        assert _stop(worker) == 0

    assert worker.said[-1].startswith('{"runId":')


def test_waiting_for_a_row_lock() -> None:
    now = clock.now()
    JobRun.objects.create(
        id=uuid.uuid4(), job="other", instance="x:1", as_of=now, started_at=now, duration_ms=1, outcome="Succeeded"
    )
    with psycopg.connect(database_url()) as holder, _worker("--does", "wait_for_a_row") as worker:
        holder.execute("SELECT 1 FROM job_runs FOR UPDATE")
        _active_backend()
        assert _stop(worker) == 0


def test_the_database_process_is_frozen(embedded_postgres: EmbeddedPostgres) -> None:
    with _worker("--does", "hang_in_an_item") as worker:
        with _frozen(_active_backend()):
            assert _stop(worker) == 0
        assert "shutting the connection down" in worker.events()
        assert worker.events(level="error") == []


def test_the_whole_database_is_frozen(embedded_postgres: EmbeddedPostgres) -> None:
    assert embedded_postgres.pid is not None
    with _worker("--does", "hang_in_an_item") as worker:
        backend = _active_backend()
        with _frozen(embedded_postgres.pid, backend):
            assert _stop(worker) == 0
        assert "running statement not cancelled" in worker.events()


def test_a_connect_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = database_url(HOST="127.0.0.1", PORT=silent.getsockname()[1])
        with _worker("--does", "work", DATABASE_URL=at, DATABASE_CONNECT_TIMEOUT_SECONDS="60") as worker:
            client, _address = silent.accept()
            with client:
                assert _stop(worker) == 0


def test_a_library_that_hangs_in_c_code() -> None:
    with _worker("--does", "hang_in_c") as worker:
        worker.wait_for_word("working")
        assert _stop(worker) == 0
        assert "leaving without waiting" in worker.events()


def test_a_reader_of_the_log_that_hangs_as_well() -> None:
    with _worker("--does", "hang_unheard") as worker:
        worker.wait_for_word("working")
        assert _stop(worker) == 0


def test_what_runs_at_interpreter_exit_is_bounded_too() -> None:
    with _worker("--does", "hang_at_exit", "--interval", "3600") as worker:
        worker.wait_for_event("cycle completed")
        assert _stop(worker) == 0


def test_a_second_signal_exits_at_once() -> None:
    with _worker("--does", "hang_in_c") as worker:
        worker.wait_for_word("working")

        def has_ended() -> bool:
            worker.process.send_signal(signal.SIGTERM)
            return worker.process.poll() is not None

        eventually(has_ended, "the worker ended")
        assert worker.end(timeout=10) == 128 + signal.SIGTERM
