"""`make demo`: the story as a real process, and its end by Ctrl-C."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from rich.console import Console

from core.ids import new_id
from dev import stage
from dev.console import Received, without_repeats
from dev.screen import Screen, is_news
from dev.story import Fact
from dev.workspace import ROOT as WORKSPACES
from ops.demo_data import DemoData
from tests.dev.processes import ROOT, is_gone

DEMO = (sys.executable, "-m", "dev.demo")
# Servers of its own, whatever this session runs on.
ENVIRON = os.environ | {"DATABASE_URL": "", "KAFKA_BOOTSTRAP_SERVERS": ""}


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo's process; should a test fail, it is killed, and its children die with it."""
    with subprocess.Popen(
        [*DEMO, *arguments], cwd=ROOT, env=ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def left_behind(process: subprocess.Popen[str]) -> list[str]:
    return [path.name for path in WORKSPACES.glob(f"demo-{process.pid}-*")]


@pytest.mark.timeout(300)
def test_once_tells_the_story_verifies_it_and_leaves_nothing() -> None:
    with demo("--once") as process:
        shown, _ = process.communicate()

    assert process.returncode == 0, shown
    started = [int(pid) for pid in re.findall(r"Started [\w-]+, process (\d+)", shown)]
    assert len(started) == 7
    assert all(is_gone(pid) for pid in started)
    assert left_behind(process) == []
    assert re.search(r"API: http://127\.0\.0\.1:\d+/api/v1/docs", shown)
    assert re.search(r"Mails: http://127\.0\.0\.1:\d+/", shown)
    assert len(re.findall(r"^export (?:AGENT|INVESTOR)=[\w-]+\.[\w-]+\.[\w-]+$", shown, re.MULTILINE)) == 2
    table = shown.partition("What happened")[2]
    assert "appointment-cancelled Expired Released" in table
    assert "appointment-cancelled Expired Expired" in table
    assert "Запись не состоялась: " in table
    assert "Your request has lapsed: " in table
    assert "запись истекла без решения агента" in table
    assert "Moved, CrmDeadline Scheduled" in table
    assert (table.count("│ yes │"), table.count("│ NO ")) == (32, 0)


@pytest.mark.timeout(120)
def test_ctrl_c_stops_everything() -> None:
    with demo() as process:
        assert process.stdout is not None
        seen: list[str] = []
        while "requests 1 and 2 lapse at" not in (line := process.stdout.readline()):
            assert line, "".join(seen)
            seen.append(line)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) > 9  # seven of its own, the web's worker, PostgreSQL's sessions, the broker

        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)

    assert (process.returncode, rest.splitlines()[-1]) == (0, "Stopped.")
    assert all(is_gone(child.pid) for child in children)
    assert left_behind(process) == []


@pytest.mark.parametrize("arguments", [["--twice"], ["once"], ["--once", "1"]])
def test_bad_arguments_are_refused_with_the_usage(arguments: list[str]) -> None:
    done = subprocess.run([*DEMO, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: make demo ARGS=" in done.stderr


class Untrue:
    """A stage on which the slot was not given back."""

    def __init__(self, *_: object, **__: object) -> None:
        """Starts nothing."""

    def start(self, *, with_user: bool) -> DemoData:
        """Nobody is there."""
        return DemoData(new_id(), (), (), (), (), (), is_new=False)

    def tell(self, _story: object) -> list[Fact]:
        return [Fact("appointment", "Expired", "Expired"), Fact("slot", "Available", "Booked")]


def test_once_ends_with_1_when_anything_is_not_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "Stage", Untrue)
    assert stage.run(once=True, log_level="INFO", is_database_ours=False) == 1


def test_the_table_shows_what_was_told_where_it_is_not_so() -> None:
    out = io.StringIO()

    Screen(Console(file=out, width=80)).show_facts([Fact("a", "1", "1"), Fact("b", "told this", "saw that")])

    rows = [line for line in out.getvalue().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row.strip("│").split("│")] for row in rows] == [
        ["a", "1", "yes"],
        ["b", "saw that", "NO"],
        ["", "told: told this", ""],
    ]


@pytest.mark.parametrize(
    ("line", "is_shown"),
    [
        ('{"event":"cycle started","level":"info"}', False),
        ('{"event":"cycle completed","level":"info","sentCount":0,"durationMs":7}', False),
        ('{"event":"cycle completed","level":"info","sentCount":1,"failedCount":0}', True),
        ('{"event":"batch selected","level":"info","count":0}', False),
        ('{"event":"batch selected","level":"info","count":2}', True),
        ('{"event":"cycle failed","level":"error"}', True),
        ('{"event":"appointment expired","level":"info"}', True),
        ("reminder-due 60", True),
        ("[1]", True),
    ],
)
def test_cycles_without_work_are_no_news(line: str, is_shown: bool) -> None:
    assert is_news(line) is is_shown


def test_a_message_that_came_again_counts_once() -> None:
    first, other = (Received("pin.calendar.reminder-due.v1", "key", id_, {"offsetMinutes": 60}) for id_ in "ab")

    assert without_repeats([first, other, first]) == [first, other]
    assert first.summary == "reminder-due 60"
