"""Child processes under one roof: started by name, their lines shown, stopped together."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import IO, Any, Self

from rich.console import Console
from rich.text import Text

from dev.processes import die_with_parent

_NAME_WIDTH = 14
_NAME_STYLES = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
_LEVEL_STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
_LOG_FIELDS_SHOWN_ELSEWHERE = frozenset({"event", "level", "logger", "timestamp", "exception"})
_POLL_SECONDS = 0.02


class Supervisor:
    """A context manager around named children; none of them outlives it, nor (on Linux) this process.

    SIGTERM ends the block as Ctrl-C does, with KeyboardInterrupt. Use it from the main thread. Of the children's lines
    those are shown that `is_shown` is true of.
    """

    def __init__(
        self,
        *,
        grace_seconds: float = 8,
        console: Console | None = None,
        is_shown: Callable[[str], bool] = lambda _line: True,
    ) -> None:
        self._grace_seconds = grace_seconds
        self._is_shown = is_shown
        self._console = console or Console(highlight=False)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []
        self._previous_handler: Any = None

    def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
        """Start a child and return its pid; `env` is added to our environment. stdout and stderr are shown by line.

        A name may be used again once its child has ended.
        """
        previous = self._children.get(name)
        if previous and previous.poll() is None:
            raise ValueError(f"{name} is already running")
        child = subprocess.Popen(
            argv,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C on the terminal reaches us alone, so that we stop all in order
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (a system call only, no lock is taken)
        )
        style = _NAME_STYLES[len(self._children) % len(_NAME_STYLES)]
        self._children[name] = child
        reader = threading.Thread(
            target=self._show, args=(name, style, child.stdout), name=f"lines of {name}", daemon=True
        )
        reader.start()
        self._readers.append(reader)
        return child.pid

    def failed(self) -> dict[str, int]:
        """Exit codes, by name, of the children that ended by themselves; negative is the signal that killed one."""
        return {name: code for name, child in self._children.items() if (code := child.poll()) is not None}

    def stop_all(self) -> None:
        """SIGTERM to all at once, SIGKILL to those that still run after the grace time; then nothing runs any more."""
        deadline = time.monotonic() + self._grace_seconds
        children, self._children = self._children, {}
        try:
            for child in children.values():
                if child.poll() is None:
                    child.terminate()
            while any(child.poll() is None for child in children.values()) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        finally:  # also after a second Ctrl-C, which cuts the wait short
            for name, child in children.items():
                if child.poll() is None:
                    self._print(Text(f"{name} did not stop in time and was killed", style="red"))
                    with suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)  # its own session, so its children too
                    child.wait()
        for reader in self._readers:
            reader.join(timeout=1)  # the last lines; a grandchild may hold the pipe open, and is not waited for
        self._readers.clear()

    def __enter__(self) -> Self:
        self._previous_handler = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop_all()
        finally:
            signal.signal(signal.SIGTERM, self._previous_handler)

    def _show(self, name: str, style: str, stream: IO[bytes]) -> None:
        with stream:
            for raw in stream:
                line = raw.decode(errors="replace").rstrip()
                if self._is_shown(line):
                    self._print(Text(f"{name:<{_NAME_WIDTH}} ", style=style).append_text(readable(line)))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def readable(line: str) -> Text:
    """A line for people: of a JSON log line its time, event, then the other fields as `name=value`; else itself."""
    try:
        record = json.loads(line)
        event, level = str(record["event"]), str(record.get("level", ""))
    except (ValueError, TypeError, KeyError):
        return Text(line, style="default")
    text = Text(style="default")
    if len(timestamp := str(record.get("timestamp", ""))) > len("2026-01-01T00:00:00"):
        text.append(f"{timestamp[11:19]} ", style="dim")
    text.append(event, style=_LEVEL_STYLES.get(level, "bold"))
    for name, value in record.items():
        if name not in _LOG_FIELDS_SHOWN_ELSEWHERE:
            text.append(f" {name}=", style="dim").append(value if isinstance(value, str) else json.dumps(value))
    if exception := record.get("exception"):
        text.append(f"\n{exception}", style="red")
    return text


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
