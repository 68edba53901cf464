"""The fake worker as a real process."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import orjson
from django.db import connection

from tests.waiting import eventually


def database_url(**over: Any) -> str:
    """Of the test's database, for a process of its own."""
    at = {**connection.settings_dict, **over}
    return f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"


class Worker:
    """A running worker; `said` are its lines of stdout so far, `logged` those of its log."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        self.logged: list[dict[str, Any]] = []
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout, self._hear_stdout)),
            threading.Thread(target=self._read, args=(process.stderr, self._hear_stderr)),
        ]
        for reader in self._readers:
            reader.start()

    def wait_for_word(self, word: str, *, times: int = 1) -> None:
        eventually(lambda: self.said.count(word) >= times, f"stdout of the worker says {word!r}", timeout=20)

    def wait_for_event(self, event: str, *, after: int = 0) -> int:
        """Wait until `event` is logged at a place past `after`; its place."""

        def places() -> list[int]:
            return [n for n, line in enumerate(self.logged, start=1) if line["event"] == event and n > after]

        return eventually(places, f"the worker logs {event!r}", timeout=20)[0]

    def events(self, *, level: str | None = None) -> list[str]:
        return [line["event"] for line in self.logged if level in (None, line.get("level"))]

    def end(self, *, timeout: float) -> int:
        """The exit code; its whole output has been read then."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join()
        return code

    def _read(self, stream: IO[str], hear: Callable[[str], None]) -> None:
        for line in stream:
            hear(line.rstrip("\n"))

    def _hear_stdout(self, line: str) -> None:
        self.said.append(line)

    def _hear_stderr(self, line: str) -> None:
        self.logged.append(orjson.loads(line) if line.startswith("{") else {"event": line})


@contextmanager
def running(*flags: str, **environ: str) -> Iterator[Worker]:
    """The fake worker with these flags, on the test's database unless `environ` says otherwise; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.workers.fake_worker", *flags],
        env={**os.environ, "DATABASE_URL": database_url(), "LOG_LEVEL": "INFO", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = Worker(process)
    try:
        yield worker
    finally:
        process.kill()
        worker.end(timeout=10)


def run_to_end(*flags: str, **environ: str) -> tuple[int, Worker]:
    """The exit code and what was said of a worker that ends by itself."""
    with running(*flags, **environ) as worker:
        return worker.end(timeout=30), worker
