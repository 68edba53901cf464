"""A project that uses a published package: its environment, and a process of it that begins when it is told to."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks.messages import TOPIC
from dev.processes import die_with_parent
from tests.workers.processes import database_url

_ROOT = Path(__file__).resolve().parent.parent.parent
_ENVIRONMENTS = _ROOT / ".peers"
_UV = Path(sys.executable).with_name("uv")

Peer = TypeVar("Peer")


class Absent(Exception):
    """The package can't be installed here; the sentence says why."""


class Project:
    """One of `benchmarks.peers.projects`, run by a Python that has its package."""

    def __init__(self, module: str, *packages: str, python: str = "") -> None:
        """Install the packages, once: what they need in the versions that this project has, as far as it has them.

        A package that needs another Python names it; PEER_PYTHON tells where that is. Raises Absent.
        """
        self._module = module
        python = os.environ.get("PEER_PYTHON", python) if python else sys.executable
        self._python = _install(packages, python=python)

    @contextmanager
    def ready(self, verb: str, *, database: str, count: int | None = None) -> Iterator[Callable[[], int]]:
        """A process on that database which is ready; the call lets it begin and returns how many it did."""
        number = [] if count is None else [str(count)]
        process = subprocess.Popen(
            [self._python, "-m", "benchmarks.peers.projects", self._module, verb, *number],
            cwd=_ROOT,
            env={
                "DATABASE_URL": database_url(NAME=database),
                "KAFKA_BOOTSTRAP_SERVERS": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
                "TOPIC": TOPIC,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
        )

        def begin() -> int:
            said, _ = process.communicate("\n")
            assert process.returncode == 0, f"{self._module} {verb} ended with {process.returncode}"
            return int(said.split()[-1])

        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"{self._module} {verb} does not start"
            yield begin
        finally:
            process.kill()
            process.wait()


def present(peers: Iterable[Callable[[], Peer]], *, remarks: list[str]) -> list[Peer]:
    """Those that can be had here; of each of the others a remark is added that says why not."""
    found = []
    for make in peers:
        try:
            found.append(make())
        except Absent as why:
            remarks.append(f"Not measured here: {why}.")
    return found


def _install(packages: tuple[str, ...], *, python: str) -> Path:
    home = _ENVIRONMENTS / re.sub(r"\[.*]", "", packages[0])
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        partial = home.with_name(f"{home.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        locked = ("--constraint", str(_ROOT / "requirements.lock"))
        for command in (
            ["venv", "--python", python, "--relocatable", str(partial)],
            ["pip", "install", "--python", str(partial / "bin" / "python"), *locked, *packages],
        ):
            done = subprocess.run([_UV, "--quiet", *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise Absent(f"{packages[0]} ({command[0]}: {(done.stderr.splitlines() or ['failed'])[0]})")
        partial.rename(home)
    return interpreter
