"""Flags, exit codes, the --once result, the preview."""

import gc
import io
import json
import signal
import socket
import threading
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from django.db import connection, connections

from core import clock, sql
from tests.workers.fakes import DOINGS, Command, FakeJob, FakeResult
from tests.workers.processes import database_url, run_to_end
from workers.job import KeepGoing
from workers.models import JobRun
from workers.preview import print_rows

pytestmark = pytest.mark.django_db


def _call(*flags: str, command: Command | None = None) -> str:
    out = io.StringIO()
    call_command(command or Command(), *flags, stdout=out)
    return out.getvalue()


def _command_for(job: FakeJob) -> Command:
    command = Command()
    command.make_job = lambda options: job  # type: ignore[method-assign]
    return command


def _doing(*results: FakeResult) -> FakeJob:
    left = iter(results)
    return FakeJob(lambda _keep_going: next(left))


def test_once_prints_one_json_line() -> None:
    line = json.loads(_call("--once", command=_command_for(_doing(FakeResult(done_count=2, failed_count=1)))))

    run = JobRun.objects.get()
    assert list(line) == ["runId", "asOf", "doneCount", "failedCount", "durationMs"]
    assert line["runId"] == str(run.id)
    assert line["asOf"] == clock.iso(run.as_of)
    assert (line["doneCount"], line["failedCount"]) == (2, 1)


def test_once_with_drain_goes_on_until_a_batch_is_not_full_and_sums_up() -> None:
    job = _doing(FakeResult(done_count=10, is_batch_full=True), FakeResult(done_count=4, failed_count=1))

    line = json.loads(_call("--once", "--drain", command=_command_for(job)))

    assert (line["doneCount"], line["failedCount"]) == (14, 1)
    assert JobRun.objects.count() == 2


def test_once_without_drain_is_a_single_cycle() -> None:
    job = _doing(FakeResult(done_count=10, is_batch_full=True), FakeResult(done_count=4))

    assert json.loads(_call("--once", command=_command_for(job)))["doneCount"] == 10


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("be_unavailable", "A dependency is away: JobUnavailable: the broker is away"),
        ("fail", "The cycle failed: ZeroDivisionError: a defect"),
    ],
)
def test_once_fails_with_a_sentence_and_exit_code_1(does: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence) as failure:
        _call("--once", "--does", does)

    assert failure.value.returncode == 1


def test_the_job_is_closed_also_after_a_failure() -> None:
    job = FakeJob(DOINGS["fail"])
    with pytest.raises(CommandError):
        _call("--once", command=_command_for(job))

    assert job.was_closed


@pytest.mark.parametrize("flag", ["--interval", "--max-duration"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "-inf", "1e9", "soon", ""])
def test_seconds_are_a_number_above_zero(flag: str, value: str) -> None:
    with pytest.raises(CommandError, match=f"argument {flag}: must be a number above 0"):
        _call("--once", f"{flag}={value}")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "nan", "many", "", "1000000000"])
def test_a_batch_size_is_a_whole_number_above_zero(value: str) -> None:
    with pytest.raises(CommandError, match="argument --batch-size: must be a whole number from 1 to 100000"):
        _call("--once", f"--batch-size={value}")


@pytest.mark.parametrize("value", ["-1", "65536", "http"])
def test_a_metrics_port_is_a_port(value: str) -> None:
    with pytest.raises(CommandError, match="argument --metrics-port: must be a whole number from 0 to 65535"):
        _call("--once", f"--metrics-port={value}")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("2026-03-01T10:00:00", "has no time zone"),
        ("tomorrow", "is not an ISO 8601 instant"),
        ("0001-01-01T00:00:00+14:00", "argument --as-of"),
    ],
)
def test_as_of_is_an_aware_instant(value: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        _call("--dry-run", f"--as-of={value}")


def test_as_of_goes_only_with_dry_run() -> None:
    with pytest.raises(CommandError, match="--as-of: goes only together with --dry-run"):
        _call("--once", "--as-of=2026-03-01T10:00:00Z")


def test_a_job_without_a_preview_has_no_flags_for_it() -> None:
    command = Command()
    command.supports_preview = False  # type: ignore[misc]
    with pytest.raises(CommandError, match="--dry-run"):
        _call("--dry-run", command=command)


def test_a_metrics_port_in_use_is_told_by_the_flags_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"argument --metrics-port: cannot serve on 127.0.0.1:{port}"):
            _call("--once", f"--metrics-port={port}")


def test_the_flags_reach_the_cycle() -> None:
    seen: list[int] = []

    class Curious(FakeJob):
        def cycle(self, *, as_of: Any, limit: int, keep_going: KeepGoing) -> FakeResult:
            seen.append(limit)
            return FakeResult()

    _call("--once", "--batch-size=3", command=_command_for(Curious(DOINGS["fail"])))
    _call("--once", command=_command_for(Curious(DOINGS["fail"])))

    assert seen == [3, 10]


def test_a_preview_prints_json_lines_as_of_the_given_instant_and_leaves_no_run() -> None:
    lines = _call("--dry-run", "--as-of=2026-03-01T10:00:00+02:00", "--batch-size=1").splitlines()

    assert [json.loads(line) for line in lines] == [{"itemId": 0, "dueAt": "2026-03-01T08:00:00.000000Z"}]
    assert not JobRun.objects.exists()


def test_a_preview_cannot_write() -> None:
    with pytest.raises(Exception, match="read-only transaction"):
        _call("--dry-run", "--does", "write")


def test_a_preview_is_a_table_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    print_rows([{"item_id": "[7]", "due_at": None}], out=OutputWrapper(out))
    assert "itemId" in out.getvalue()
    assert "[7]" in out.getvalue()
    assert "1 in all; nothing was changed" in out.getvalue()

    out = Terminal()
    print_rows([], out=OutputWrapper(out))
    assert out.getvalue() == "Nothing to do.\n"


def test_the_caller_has_its_garbage_collector_back() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()

    _call("--once")

    assert (gc.get_threshold(), gc.get_freeze_count()) == before


@pytest.mark.django_db(transaction=True)
def test_its_sessions_plan_prepared_statements_once_and_the_callers_do_not() -> None:
    seen: list[str] = []

    def look(_keep_going: KeepGoing) -> None:
        connection.close()
        [(mode,)] = sql.fetch("SHOW plan_cache_mode")
        seen.append(mode)

    _call("--once", command=_command_for(FakeJob(look)))
    look(lambda: True)

    assert seen == ["force_generic_plan", "auto"]


def test_the_caller_has_its_signal_handlers_back() -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)]

    _call("--once")

    assert [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)] == before
    assert "stop-watchdog" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.django_db(transaction=True)
def test_outside_the_main_thread_it_runs_without_signal_handlers() -> None:
    said: list[str] = []

    def call() -> None:
        said.append(_call("--once"))
        connections.close_all()

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

    assert json.loads(said[0])["doneCount"] == 1


@pytest.mark.django_db(transaction=True)
def test_the_process_exits_with_the_code_and_keeps_stdout_for_the_result() -> None:
    code, worker = run_to_end("--once")
    assert (code, len(worker.said)) == (0, 1)
    assert json.loads(worker.said[0])["doneCount"] == 1

    code, worker = run_to_end("--once", "--interval=nan")
    assert (code, worker.said) == (2, [])
    assert "argument --interval" in worker.events()[-1]

    code, worker = run_to_end("--once", "--does", "work", DATABASE_URL=database_url(HOST="127.0.0.1", PORT=1))
    assert (code, worker.said) == (1, [])
    assert any("A dependency is away: OperationalError" in event for event in worker.events())
