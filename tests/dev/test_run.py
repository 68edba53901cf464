"""`python -m dev.run`: a command between servers and a migrated database."""

import os
import signal
import subprocess
import sys

import pytest

from dev import run
from tests.dev.processes import ROOT, python, read_line


def dev_run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dev.run", *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_finds_servers_and_a_migrated_database() -> None:
    environ = {"DATABASE_URL": "", "KAFKA_BOOTSTRAP_SERVERS": ""}

    done = dev_run("--", sys.executable, "manage.py", "migrate", "--check", **environ)

    assert done.returncode == 0, done.stderr


def test_without_a_command_it_explains_itself() -> None:
    done = dev_run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "COMMAND" in done.stderr


@pytest.mark.parametrize(("script", "code"), [("exit 5", 5), ("kill -9 $$", 137)])
def test_the_exit_code_of_the_command_becomes_ours(script: str, code: int) -> None:
    assert run.run(["sh", "-c", script], environ=os.environ) == code


COMMAND = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""
RUNNER = (
    "import os, sys; from dev import run; sys.exit(run.run([sys.executable, '-c', sys.argv[1]], environ=os.environ))"
)


def test_sigterm_is_passed_on_to_the_command() -> None:
    runner = python(RUNNER, COMMAND)
    assert read_line(runner) == "ready"

    runner.send_signal(signal.SIGTERM)

    assert runner.wait(10) == 7
