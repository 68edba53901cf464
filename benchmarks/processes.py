"""Workers as they are deployed: processes with a log of their own."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.processes import die_with_parent, kill, last_lines
from dev.run import MANAGE

_STOP_SECONDS = 10


class Worker:
    """A running worker."""

    def __init__(self, process: "subprocess.Popen[bytes]", *, log: Path) -> None:
        self._process = process
        self._log = log

    def wait(self, seconds: float) -> None:
        """Until it has ended by itself, and well."""
        if self._process.wait(seconds):
            self.refuse_to_be_dead()

    def refuse_to_be_dead(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"a worker ended with {self._process.returncode}:\n{last_lines(self._log)}")


@contextmanager
def worker(*command: str, environ: dict[str, str] | None = None) -> Iterator[Worker]:
    """A worker with its log in a file; it is asked to stop at the end, and must within seconds."""
    with tempfile.TemporaryDirectory(prefix="pin-calendar-worker-") as directory:
        path = Path(directory) / "log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [*MANAGE, *command],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 (a system call only, no lock is taken)
            )
            try:
                yield Worker(process, log=path)
                process.terminate()
                process.wait(_STOP_SECONDS)
            finally:
                kill(process)
