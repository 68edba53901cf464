"""What the brokers for demo and tests have in common: the life of a process that serves Kafka's protocol."""

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from dev.processes import HOST, die_with_parent, is_open, kill, last_lines


class Broker(ABC):
    """A broker on a free port of 127.0.0.1; it ends with this process, however that ends. A restart keeps the port."""

    start_seconds: ClassVar[float]
    poll_seconds: ClassVar[float]
    environment: ClassVar[Mapping[str, str] | None] = None
    """All that the process finds there; None is ours."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / "log"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """For KAFKA_BOOTSTRAP_SERVERS; valid after the first start."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's, None while stopped."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @abstractmethod
    def prepare(self) -> None:
        """Choose the port at the first start, and make ready what each one needs."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """What runs the prepared broker."""

    def start(self) -> str:
        """Accept connections and return the address; harmless while running."""
        if self.pid is not None:
            return self.bootstrap_servers
        self.prepare()
        deadline = time.monotonic() + self.start_seconds
        self._process = self.spawn(self.command())
        while not is_open(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"The broker did not start on {self.bootstrap_servers}:\n{last_lines(self._log)}")
            time.sleep(self.poll_seconds)
        return self.bootstrap_servers

    @abstractmethod
    def stop(self) -> None:
        """End it in bounded time; harmless while stopped."""

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self._process:
            kill(self._process)

    def restart(self) -> str:
        """Stop, start again on the same port."""
        self.stop()
        return self.start()

    def spawn(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        """A process whose words go to the log."""
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C on the terminal is for us; we stop the broker last
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
