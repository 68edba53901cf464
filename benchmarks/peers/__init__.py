"""Published packages that do what ours does, each as its authors document it, in an environment of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import database
from benchmarks.messages import TOPIC
from core import sql
from dev.processes import die_with_parent
from tests.workers.processes import database_url

_ROOT = Path(__file__).resolve().parent.parent.parent
_ENVIRONMENTS = _ROOT / ".peers"
_UV = Path(sys.executable).with_name("uv")


class Absent(Exception):
    """The package can't be installed or run here; the sentence says why."""


class ReliableOutbox:
    """django-reliable-outbox: one worker, the Kafka destination, messages of a thousand keys."""

    _PACKAGE = "django-reliable-outbox[psycopg,kafka]==0.1.1"
    name = "django-reliable-outbox"

    def __init__(self, *, messages: int) -> None:
        """Install it, once. Raises Absent."""
        self._count = messages
        self._python = _install(self._PACKAGE, python="3.12")
        self.remark = (
            f"django-reliable-outbox 0.1.1 with its Kafka destination and one worker (`outbox_worker --burst`), over "
            f"{messages:,} messages, in an environment of its own (Python 3.12)."
        )

    @contextmanager
    def prepared(self) -> Iterator[None]:
        sql.execute("DROP DATABASE IF EXISTS peer WITH (FORCE)")
        sql.execute("CREATE DATABASE peer")
        try:
            with self._started("tell", str(self._count)) as telling:
                telling.communicate("\n")
                assert telling.returncode == 0
            with self._started("publish") as self._publishing:
                yield
        finally:
            database.drop("peer")

    def publish(self) -> int:
        said, _ = self._publishing.communicate("\n")
        assert self._publishing.returncode == 0
        return int(said)

    @contextmanager
    def _started(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """The project as a process that is ready, and begins at a line on its stdin; it prints how many it did."""
        process = subprocess.Popen(
            [self._python, Path(__file__).with_name("project.py"), *arguments],
            env={
                "DATABASE_URL": database_url(NAME="peer"),
                "KAFKA_BOOTSTRAP_SERVERS": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
                "TOPIC": TOPIC,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()


def _install(package: str, *, python: str) -> Path:
    """The Python of an environment that has the package; PEER_PYTHON names the Python to make it with."""
    home = _ENVIRONMENTS / package.partition("[")[0]
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        partial = home.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for command in (
            ["venv", "--python", os.environ.get("PEER_PYTHON", python), "--relocatable", str(partial)],
            ["pip", "install", "--python", str(partial / "bin" / "python"), package],
        ):
            done = subprocess.run([_UV, "--quiet", *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise Absent(f"{command[0]}: {(done.stderr.splitlines() or ['failed'])[0]}")
        partial.rename(home)
    return interpreter
