"""What every child process of the development tools needs: to die with its parent, a free port, its last words."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1


def die_with_parent(signum: signal.Signals, *, parent: int | None = None) -> Callable[[], None] | None:
    """A `preexec_fn`: the kernel sends `signum` to the child when its parent ends in any way, kill -9 included.

    A child that could not be given one calls it first thing, made with the id of its parent. Linux only, None
    elsewhere. The kernel watches the thread that started the child, so start it from one that stays.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: the child must not allocate more than it needs
    parent = os.getpid() if parent is None else parent

    def arm() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signum)
        if os.getppid() != parent:  # the parent died before the flag was set
            os._exit(1)

    return arm


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Whether somebody on the loopback interface accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 and reap; nothing when it has ended."""
    if process.poll() is None:
        process.kill()
        process.wait()


def last_lines(path: Path, *, count: int = 15) -> str:
    """The end of a log file, for the message of an error."""
    if not path.exists():
        return "(no log)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])
