"""The HTTP server of a worker: /metrics, /livez, /readyz. It runs beside the loop and never touches its connection."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import psycopg
from django.db import connections
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from workers.job import Check

_CHECK_SECONDS = 3.0


class Heartbeat:
    """When the loop last gave a sign of life; beaten by the loop, read by HTTP threads."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beaten_at = monotonic()

    def beat(self) -> None:
        self._beaten_at = self._monotonic()

    def age(self) -> float:
        """Seconds since the last beat."""
        return self._monotonic() - self._beaten_at


def database_check(parameters: Mapping[str, Any]) -> Check:
    """A check that opens a connection of its own by psycopg `parameters` and has a statement answered."""

    def check() -> None:
        with psycopg.connect(**{**parameters, "connect_timeout": 2, "autocommit": True}) as connection:
            connection.execute("SELECT 1")

    return check


class BoundedCheck:
    """Runs a check in a thread of its own, since what it looks at may hang; never two of a kind at once."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._running = threading.Lock()

    def state(self) -> str:
        """`ok`, or what is wrong, within _CHECK_SECONDS."""
        ends_at = time.monotonic() + _CHECK_SECONDS
        if not self._running.acquire(timeout=_CHECK_SECONDS):
            return "no answer yet to an earlier check"
        states: list[str] = []
        thread = threading.Thread(target=self._run, args=(states,), name="readiness-check", daemon=True)
        thread.start()
        thread.join(max(0.0, ends_at - time.monotonic()))
        return states[0] if states else f"no answer within {_CHECK_SECONDS:g} s"

    def _run(self, states: list[str]) -> None:
        try:
            self._check()
            states.append("ok")
        except Exception as error:  # whatever is wrong is the answer
            states.append(type(error).__name__)  # the text may name hosts and users
        finally:
            connections.close_all()
            self._running.release()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


def listen(
    *,
    host: str,
    port: int,
    registry: CollectorRegistry,
    heartbeat: Heartbeat,
    liveness_seconds: float,
    checks: Mapping[str, Check],
) -> socketserver.BaseServer:
    """A server bound to `host`:`port`, for `serving`. Raises OSError when the address is not to be had."""
    bounded = {name: BoundedCheck(check) for name, check in checks.items()}

    def livez() -> tuple[HTTPStatus, dict[str, Any]]:
        age = heartbeat.age()
        status = HTTPStatus.OK if age <= liveness_seconds else HTTPStatus.SERVICE_UNAVAILABLE
        return status, {"ageSeconds": round(age, 3), "limitSeconds": liveness_seconds}

    def readyz() -> tuple[HTTPStatus, dict[str, Any]]:
        states = {name: check.state() for name, check in bounded.items()}
        is_ready = all(state == "ok" for state in states.values())
        return HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, {"checks": states}

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # of a client that connects and says nothing

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
                case "/livez":
                    self._answer_json(*livez())
                case "/readyz":
                    self._answer_json(*readyz())
                case _:
                    self._answer_json(HTTPStatus.NOT_FOUND, {"error": "not found"})

        def _answer_json(self, status: HTTPStatus, body: dict[str, Any]) -> None:
            self._answer(status, "application/json", json.dumps(body).encode())

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def finish(self) -> None:
            super().finish()
            connections.close_all()  # a collector in the registry may have opened one for this thread

        def log_message(self, format: str, *args: Any) -> None:
            """Probes and scrapes are not worth a line each."""

    return _Server((host, port), Handler)


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Answer requests in a thread for the block."""
    with server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="health", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
