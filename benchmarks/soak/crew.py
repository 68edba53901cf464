"""The workers of a run: real processes that are killed, asked to stop, paused, and started again."""

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from core import sql
from dev.processes import die_with_parent, kill, last_lines
from dev.run import MANAGE

_STOP_SECONDS = 20


class Crew:
    """Workers by name. Each has a log of its own, kept over its lives."""

    def __init__(self, commands: Mapping[str, Sequence[str]], *, environ: Mapping[str, str], logs: Path) -> None:
        self._commands = commands
        self._environ = environ
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.deserters: list[str] = []
        """Who ended without having been asked to, with the last lines of the log."""

    @property
    def names(self) -> list[str]:
        return list(self._commands)

    def start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*MANAGE, *self._commands[name]],
                env={**self._environ, "PIN_PROCESS_NAME": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
            )

    def kill(self, name: str) -> None:
        """kill -9, and a successor."""
        self._look_after(name)
        kill(self._processes[name])
        self.start(name)

    def replace(self, name: str) -> None:
        """SIGTERM, and a successor once it has ended as it must."""
        self._look_after(name)
        self._processes[name].terminate()
        self._see_off(name)
        self.start(name)

    def pause(self, name: str) -> None:
        """SIGSTOP; and its sessions end, as the server's keepalives would have it for a machine that froze."""
        self._look_after(name)
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        ports = [open_.laddr.port for open_ in psutil.Process(process.pid).net_connections() if open_.raddr]
        sql.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = ANY(%s)", [ports])

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def look_after_all(self) -> None:
        """Note who has deserted, and start a successor."""
        for name in self._commands:
            self._look_after(name)

    def stop_all(self) -> None:
        """SIGTERM to all; each must end well."""
        self.look_after_all()
        for process in self._processes.values():
            process.terminate()
        for name in self._commands:
            self._see_off(name)

    def kill_all(self) -> None:
        for process in self._processes.values():
            kill(process)

    def log_lines(self) -> Iterator[str]:
        """Everything that was logged by anybody."""
        for name in self._commands:
            with self._log(name).open(errors="replace") as log:
                yield from log

    def _log(self, name: str) -> Path:
        return self._logs / f"{name.replace(' ', '-')}.log"

    def _see_off(self, name: str) -> None:
        """Wait for one who was asked to stop. Once: a second signal would make it leave its work at once."""
        process = self._processes[name]
        try:
            code = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill(process)
            self.deserters.append(f"{name} did not stop within {_STOP_SECONDS} s:\n{last_lines(self._log(name))}")
            return
        # A process that has not yet come to install its handlers dies of the signal.
        if code not in (0, -signal.SIGTERM):
            self.deserters.append(f"{name} stopped with {code}:\n{last_lines(self._log(name))}")

    def _look_after(self, name: str) -> None:
        code = self._processes[name].poll()
        if code is not None:
            self.deserters.append(f"{name} ended with {code}:\n{last_lines(self._log(name))}")
            self.start(name)


@contextmanager
def at_work(crew: Crew) -> Iterator[Crew]:
    """All of them for the length of the block, none after it."""
    try:
        for name in crew.names:
            crew.start(name)
        yield crew
    finally:
        crew.kill_all()
