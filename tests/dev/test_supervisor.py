"""The supervisor: children are shown, watched, and never left behind."""

import io
import os
import signal
import sys

import psutil
import pytest
from rich.console import Console

from dev.supervisor import Supervisor, readable
from tests.dev.processes import is_gone, python, read_line
from tests.waiting import eventually

OBEDIENT = (sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "grandchild = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
    "print('grandchild', grandchild.pid, flush=True); signal.pause()",
)


class Screen(io.StringIO):
    """What a supervisor has shown so far."""

    def supervisor(self, *, grace_seconds: float = 8) -> Supervisor:
        return Supervisor(grace_seconds=grace_seconds, console=Console(file=self, width=200))

    def eventually_shows(self, text: str) -> str:
        return eventually(lambda: self.getvalue() if text in self.getvalue() else "", f"a line with {text!r}")


def test_lines_are_shown_under_the_name_of_the_child() -> None:
    screen = Screen()
    with screen.supervisor() as supervisor:
        supervisor.start(
            "relay", [sys.executable, "-c", "import os; print('topic', os.environ['TOPIC'])"], env={"TOPIC": "t1"}
        )
        screen.eventually_shows("topic t1")
    assert screen.getvalue() == f"{'relay':<14} topic t1\n"


def test_a_child_that_ends_by_itself_has_failed_with_its_exit_code() -> None:
    with Screen().supervisor() as supervisor:
        supervisor.start("dying", [sys.executable, "-c", "raise SystemExit(3)"])
        killed = supervisor.start("killed", OBEDIENT)
        supervisor.start("living", OBEDIENT)
        os.kill(killed, signal.SIGKILL)

        eventually(lambda: len(supervisor.failed()) == 2, "two failures")
        assert supervisor.failed() == {"dying": 3, "killed": -signal.SIGKILL}

        supervisor.start("dying", OBEDIENT)
        assert supervisor.failed() == {"killed": -signal.SIGKILL}


def test_a_running_name_is_taken() -> None:
    with Screen().supervisor() as supervisor:
        supervisor.start("web", OBEDIENT)
        with pytest.raises(ValueError, match="web"):
            supervisor.start("web", OBEDIENT)


def test_stop_all_ends_every_child_and_none_counts_as_failed() -> None:
    screen = Screen()
    with screen.supervisor() as supervisor:
        pids = [supervisor.start(name, OBEDIENT) for name in ("one", "two")]
        eventually(lambda: screen.getvalue().count("up") == 2, "both up")

        supervisor.stop_all()

        assert all(is_gone(pid) for pid in pids)
        assert supervisor.failed() == {}
    assert "killed" not in screen.getvalue()


def test_a_child_that_ignores_sigterm_is_killed_with_its_children() -> None:
    screen = Screen()
    with screen.supervisor(grace_seconds=0.2) as supervisor:
        child = supervisor.start("stubborn", STUBBORN)
        shown = screen.eventually_shows("grandchild")
    grandchild = int(shown.split()[-1])

    assert is_gone(child)
    eventually(lambda: is_gone(grandchild), "the end of the grandchild")
    assert "stubborn did not stop in time" in screen.getvalue()


def test_an_error_in_the_block_stops_the_children() -> None:
    pids = []
    with pytest.raises(ZeroDivisionError), Screen().supervisor() as supervisor:  # noqa: PT012
        pids.append(supervisor.start("web", OBEDIENT))
        raise ZeroDivisionError
    assert is_gone(pids[0])


OWNER = """
import signal, sys
from dev.supervisor import Supervisor
try:
    with Supervisor() as supervisor:
        supervisor.start("one", [sys.executable, "-c", "import signal; signal.pause()"])
        print("ready", flush=True)
        signal.pause()
except KeyboardInterrupt:
    print("stopped in order", flush=True)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_the_children_first(signum: signal.Signals) -> None:
    owner = python(OWNER)
    assert read_line(owner) == "ready"
    children = [child.pid for child in psutil.Process(owner.pid).children()]

    owner.send_signal(signum)

    assert read_line(owner) == "stopped in order"
    assert all(is_gone(pid) for pid in children)
    assert owner.wait(10) == 0


def test_children_die_with_a_killed_supervisor() -> None:
    owner = python(OWNER)
    assert read_line(owner) == "ready"
    children = [child.pid for child in psutil.Process(owner.pid).children()]
    assert children

    owner.kill()
    owner.wait()

    eventually(lambda: all(is_gone(pid) for pid in children), "the end of the children")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            '{"slotOutcome":"released","count":2,"event":"appointment expired","level":"info","logger":"x",'
            '"timestamp":"2026-11-30T09:10:11.123456Z"}',
            "09:10:11 appointment expired slotOutcome=released count=2",
        ),
        ('{"event":"cycle failed","level":"error","exception":"Traceback\\nOops"}', "cycle failed\nTraceback\nOops"),
        ("plain [bold]text[/bold]", "plain [bold]text[/bold]"),
        ('{"runId":"no event here"}', '{"runId":"no event here"}'),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_json_log_lines_become_readable_and_others_stay(line: str, shown: str) -> None:
    assert readable(line).plain == shown


def test_lines_that_are_not_to_be_shown_are_left_out() -> None:
    screen = Screen()
    console = Console(file=screen, width=200)
    with Supervisor(console=console, is_shown=lambda line: "noise" not in line) as supervisor:
        supervisor.start("relay", [sys.executable, "-c", "print('noise'); print('news')"])
        screen.eventually_shows("news")
    assert screen.getvalue() == f"{'relay':<14} news\n"
