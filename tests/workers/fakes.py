"""A job that does as it is told, and its command."""

import atexit
import contextlib
import ctypes
import datetime
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from django.db import connection
from prometheus_client import CollectorRegistry, Counter

from workers.command import WorkerCommand
from workers.job import CycleResult, Job, JobMetrics, JobUnavailable, KeepGoing, is_infrastructure_error
from workers.loop import Pace
from workers.stopping import Stop


@dataclass(frozen=True, kw_only=True)
class FakeResult(CycleResult):
    done_count: int = 0


class FakeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._items = Counter("fake_items_total", "Items", registry=registry)

    def record(self, result: FakeResult) -> None:
        self._items.inc(result.done_count)

    def refresh(self, as_of: datetime.datetime) -> None:
        execute("SELECT 1")


Doing = Callable[[KeepGoing], FakeResult | None]


class FakeJob(Job[FakeResult]):
    name = "fake"
    metrics_prefix = "fake"

    def __init__(self, does: Doing) -> None:
        self._does = does
        self.was_closed = False

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> FakeResult:
        return self._does(keep_going) or FakeResult()

    def make_metrics(self, registry: CollectorRegistry) -> JobMetrics[FakeResult]:
        return FakeMetrics(registry)

    def preview(self, *, as_of: datetime.datetime, limit: int) -> Iterable[Mapping[str, Any]]:
        self._does(lambda: True)
        return ({"item_id": number, "due_at": as_of} for number in range(min(limit, 2)))

    def close(self) -> None:
        self.was_closed = True


class FakeTime:
    """Monotonic time that passes only in sleeps and, by `pass_by`, in cycles; a stop is asked for at `until`."""

    def __init__(self, *, until: float) -> None:
        self.now = 1_000.0
        self._ends_at = self.now + until
        self.beats = 0
        self.stop = Stop(beat=self._beat, sleep=self.pass_by, monotonic=self.monotonic)

    def monotonic(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._ends_at:
            self.stop.ask()

    @property
    def elapsed(self) -> float:
        return round(self.now - 1_000.0, 3)

    def _beat(self) -> None:
        self.beats += 1


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def say(word: str) -> None:
    """Tells the test, which reads stdout, how far the process has come."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def work(_keep_going: KeepGoing) -> FakeResult:
    execute("SELECT 1")
    say("working")
    return FakeResult(done_count=1)


def work_silently(_keep_going: KeepGoing) -> FakeResult:
    return FakeResult(done_count=1)


def hang_in_an_item(_keep_going: KeepGoing) -> FakeResult:
    """As jobs do: an item's error is told and counted, and the cycle goes on."""
    failed = 0
    execute("SET statement_timeout = 0")
    say("working")
    try:
        execute("SELECT pg_sleep(60)")
    except Exception as error:
        if is_infrastructure_error(error):
            raise
        say("item failed")
        failed += 1
    return FakeResult(failed_count=failed)


def wait_for_a_row(_keep_going: KeepGoing) -> None:
    execute("SET lock_timeout = 0")
    say("working")
    execute("SELECT 1 FROM job_runs FOR UPDATE")


def hang_in_c(_keep_going: KeepGoing) -> None:
    """A library that blocks in C code, where Python runs no signal handler: here a mutex locked twice."""
    mutex = ctypes.create_string_buffer(64)
    libc = ctypes.CDLL(None)
    say("working")
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def hang_unheard(keep_going: KeepGoing) -> None:
    """Hangs while whoever reads the log does so too: stderr is a full pipe."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4_096)
    os.set_blocking(writer, True)
    os.dup2(writer, sys.stderr.fileno())
    hang_in_c(keep_going)
    os.close(reader)


def hang_at_exit(_keep_going: KeepGoing) -> None:
    """As an exporter of traces may whose collector is away."""
    atexit.register(time.sleep, 60)
    say("working")


def count_until_stopped(keep_going: KeepGoing) -> FakeResult:
    done = 0
    while keep_going():
        time.sleep(0.01)
        done += 1
        say("working")
    return FakeResult(done_count=done)


def write(_keep_going: KeepGoing) -> None:
    execute("DELETE FROM job_runs")


def fail(_keep_going: KeepGoing) -> None:
    raise ZeroDivisionError("a defect")


def be_unavailable(_keep_going: KeepGoing) -> None:
    raise JobUnavailable("the broker is away")


DOINGS: dict[str, Doing] = {
    doing.__name__: doing
    for doing in (
        work,
        work_silently,
        hang_in_an_item,
        wait_for_a_row,
        hang_in_c,
        hang_unheard,
        hang_at_exit,
        count_until_stopped,
        write,
        fail,
        be_unavailable,
    )
}


class Command(WorkerCommand):
    help = "Does as it is told."
    supports_preview = True

    def add_job_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--does", choices=DOINGS, default="work_silently")

    def default_pace(self) -> Pace:
        return Pace(interval=60, batch_size=10, max_duration=30)

    def make_job(self, options: Mapping[str, Any]) -> FakeJob:
        return FakeJob(DOINGS[options["does"]])
