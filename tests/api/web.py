"""The web process as the image runs it: gunicorn with its configuration, on the test's database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from dev.processes import HOST, die_with_parent, free_port
from tests.waiting import eventually
from tests.workers.processes import database_url

ROOT = Path(__file__).resolve().parent.parent.parent


class Web:
    """A running web process; `log` is what it has written."""

    def __init__(self, process: "subprocess.Popen[bytes]", *, port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://{HOST}:{port}"
        self.log = log

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urlopen(f"{self.url}/api/v1/slots?limit=1", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:  # not yet, or too busy to answer
            return False


@contextmanager
def serving(log: Path, *flags: str, **environ: str) -> Iterator[Web]:
    """Gunicorn until the block ends; then SIGTERM, and it must end well."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "--bind", f"{HOST}:{port}"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *flags, "config.wsgi"],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": database_url(), "WEB_CONCURRENCY": "2"} | environ,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
        )
    web = Web(process, port=port, log=log)
    try:
        eventually(web.is_up, "the web answers", timeout=60)
        yield web
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0, log.read_text()
