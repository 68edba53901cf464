"""Looking at processes from outside."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


def is_gone(pid: int) -> bool:
    """True when no such process runs; a zombie whose parent has not asked yet counts as gone."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def python(code: str, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    """A Python process of its own that runs `code` in the checkout, with stdin and stdout to talk to it."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that the process prints; empty at its end."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")
