"""What a worker serves: metrics, liveness, readiness."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection
from prometheus_client import CollectorRegistry, Gauge

from dev.postgres import EmbeddedPostgres
from dev.processes import free_port
from tests.waiting import eventually
from tests.workers.fakes import FakeTime
from tests.workers.processes import running
from workers import health
from workers.health import Heartbeat
from workers.job import Check


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def _served(
    *,
    checks: Mapping[str, Check] | None = None,
    heartbeat: Heartbeat | None = None,
    registry: CollectorRegistry | None = None,
) -> Iterator[int]:
    port = free_port()
    server = health.listen(
        host="127.0.0.1",
        port=port,
        registry=registry or CollectorRegistry(),
        heartbeat=heartbeat or Heartbeat(),
        liveness_seconds=120,
        checks=checks or {},
    )
    with health.serving(server):
        yield port


def test_the_worker_is_alive_while_it_beats() -> None:
    time = FakeTime(until=1e9)
    heartbeat = Heartbeat(monotonic=time.monotonic)
    with _served(heartbeat=heartbeat) as port:
        time.pass_by(119)
        assert _get(port, "/livez") == (200, json.dumps({"ageSeconds": 119.0, "limitSeconds": 120}))
        time.pass_by(2)
        assert _get(port, "/livez") == (503, json.dumps({"ageSeconds": 121.0, "limitSeconds": 120}))
        heartbeat.beat()
        assert _get(port, "/livez")[0] == 200


def test_ready_names_each_check_and_does_not_tell_what_an_error_says() -> None:
    def broken() -> None:
        raise ConnectionError("user secret at host secret")

    with _served(checks={"database": lambda: None, "kafka": broken}) as port:
        status, body = _get(port, "/readyz")

    assert status == 503
    assert json.loads(body) == {"checks": {"database": "ok", "kafka": "ConnectionError"}}


def test_a_check_that_hangs_is_bounded_and_hurts_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_CHECK_SECONDS", 0.2)
    release = threading.Event()
    with _served(checks={"kafka": release.wait}) as port:
        assert json.loads(_get(port, "/readyz")[1]) == {"checks": {"kafka": "no answer within 0.2 s"}}
        assert json.loads(_get(port, "/readyz")[1]) == {"checks": {"kafka": "no answer yet to an earlier check"}}
        assert _get(port, "/livez")[0] == 200
        release.set()
        eventually(lambda: _get(port, "/readyz")[0] == 200, "ready again")


def test_anything_else_is_not_found() -> None:
    with _served() as port:
        assert _get(port, "/")[0] == 404
        assert _get(port, "/metrics/../etc")[0] == 404


@pytest.mark.django_db(transaction=True)
def test_the_database_check_uses_a_connection_of_its_own_and_leaves_none_behind() -> None:
    parameters = connection.get_connection_params()
    registry = CollectorRegistry()
    gauge = Gauge("connections_used", "By a collector", registry=registry)
    gauge.set_function(lambda: float(_count_sessions()))
    before = _count_sessions()

    with _served(checks={"database": health.database_check(parameters)}, registry=registry) as port:
        for _ in range(3):
            assert _get(port, "/readyz")[0] == 200
            assert "connections_used" in _get(port, "/metrics")[1]

        eventually(lambda: _count_sessions() == before, "no session more than before")


def _count_sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        row: tuple[int] = cursor.fetchone()
    return row[0]


def test_the_database_check_raises_when_there_is_none() -> None:
    check = health.database_check({"host": "127.0.0.1", "port": free_port(), "dbname": "x", "user": "x"})
    with pytest.raises(psycopg.OperationalError):
        check()


@pytest.mark.django_db(transaction=True)
def test_a_worker_over_an_outage_of_the_database(embedded_postgres: EmbeddedPostgres) -> None:
    """Alive all the while, not ready meanwhile, back at work afterwards; a failed cycle is logged and counted."""
    port = free_port()
    with running("--does", "work", "--interval=0.1", f"--metrics-port={port}") as worker:
        worker.wait_for_word("working")
        assert _get(port, "/readyz")[0] == 200
        assert _sample(port, "fake_errors_total") == 0
        assert _sample(port, "fake_items_total") >= 1

        embedded_postgres.stop()
        failed_at = worker.wait_for_event("cycle failed")
        assert _get(port, "/readyz")[0] == 503
        assert _get(port, "/livez")[0] == 200
        assert "job run not recorded" in worker.events()

        embedded_postgres.start()
        connection.close()
        worker.wait_for_event("cycle completed", after=failed_at)
        assert _get(port, "/readyz")[0] == 200
        assert _sample(port, "fake_errors_total") >= 1
        assert _sample(port, "fake_last_success_timestamp_seconds") > 0
        assert _sample(port, 'fake_cycle_duration_seconds_bucket{le="60.0"}') >= 2
        assert worker.process.poll() is None


def _sample(port: int, name: str) -> float:
    _status, text = _get(port, "/metrics")
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))
