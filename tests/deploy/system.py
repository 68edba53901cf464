"""The whole system as deploy/compose.yml runs it: each role a process of the entrypoint, on the servers of the test."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
from prometheus_client.parser import text_string_to_metric_families

from dev.processes import HOST, free_port
from tests.deploy import compose
from tests.dev.processes import ROOT
from tests.waiting import eventually

_ENTRYPOINT = str(ROOT / "deploy/entrypoint")
_STOP_SECONDS = 40


@dataclass
class Role:
    """One running process of the system; its log is on stderr, and so in `log`."""

    name: str
    port: int
    log: Path
    process: "subprocess.Popen[bytes]"
    program: str = field(default="")

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def get(self, path: str) -> str:
        with urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            page: str = answer.read().decode()
            return page

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return bool(self.get("/readyz"))
        except (URLError, OSError):
            return False

    def samples(self) -> dict[str, float]:
        """What /metrics tells, the values of a name added up over its labels."""
        told: dict[str, float] = {}
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                told[sample.name] = told.get(sample.name, 0) + sample.value
        return told


@contextmanager
def running(**environ: str) -> Iterator[dict[str, Role]]:
    """Every role of the compose file, ready; by its name there. Whatever is left at the end is killed."""
    started: dict[str, Role] = {}
    with tempfile.TemporaryDirectory(prefix="pin-calendar-system-") as directory:
        try:
            for name, service in compose.roles().items():
                started[name] = _start(name, service, log=Path(directory) / f"{name}.log", environ=environ)
            for role in started.values():
                eventually(role.is_ready, f"{role.name} is ready", timeout=90, poll=0.2)
                role.program = " ".join(psutil.Process(role.process.pid).cmdline())
            yield started
        finally:
            for role in started.values():
                role.process.kill()
                role.process.wait()


def stop(roles: Mapping[str, Role]) -> dict[str, int]:
    """SIGTERM to all at once, as a container's stop does; the exit codes."""
    for role in roles.values():
        role.process.terminate()
    return {role.name: role.process.wait(_STOP_SECONDS) for role in roles.values()}


def declared(pages: Mapping[str, str]) -> set[str]:
    """The names that samples of the pages' metrics have, or will have once there is something to tell."""
    names: set[str] = set()
    for page in pages.values():
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE):
            names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return names


def _start(name: str, service: Mapping[str, object], *, log: Path, environ: Mapping[str, str]) -> Role:
    port = free_port()
    words = service.get("command")
    if isinstance(words, list):
        command = [str(port) if word == compose.PORT else word for word in words]
    else:  # the image's own, as in the Dockerfile, on an address of this machine
        command = ["gunicorn", "--config", "deploy/gunicorn.conf.py", "--bind", f"{HOST}:{port}", "config.wsgi"]
    bin_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [_ENTRYPOINT, *command],
            cwd=ROOT,
            env={**os.environ, **environ, "PATH": bin_path, "PIN_PROCESS_NAME": f"calendar {name}"},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    return Role(name, port, log, process)
