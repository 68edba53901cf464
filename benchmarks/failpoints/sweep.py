"""Each path is run until it has died before every one of its statements: nothing is half done, lost or doubled."""

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path as File

from django.db import connection

from benchmarks.failpoints import scenes, state, victims
from benchmarks.failpoints.census import Writer
from benchmarks.failpoints.paths import Path
from benchmarks.failpoints.scenes import Facts
from benchmarks.failpoints.wire import Point, Wire
from core import clock, sql
from core.correlation import correlated
from dev.processes import HOST, last_lines
from notifications.models import Delivery
from outbox.models import OutboxBlockedKey
from tests import kafka_reader
from tests.invariants import violations
from tests.waiting import eventually

_LIFE_SECONDS = 120
_PROCESSES = multiprocessing.get_context("forkserver")


class _Failed(Exception):
    """A process hung, or ended with an error that nobody has caused."""


@dataclass
class Result:
    """Of one path: how often a process died on it, how many states were seen, what was wrong, what it has run."""

    deaths: int = 0
    states: int = 0
    faults: list[str] = field(default_factory=list)
    reached: set[Writer] = field(default_factory=set)


@dataclass(frozen=True)
class Stage:
    """Where processes are started whose words to PostgreSQL pass over a wire."""

    wire: Wire
    database: dict[str, str]
    log: File

    def play(self, path: Path, facts: Facts, *, point: Point | None = None) -> bool:
        """Whether the process died at the point; otherwise it has done the act."""
        return self._play(path, facts, point=point, report=None)

    def play_and_look(self, path: Path, facts: Facts) -> set[Writer]:
        """Undisturbed; which functions of ours were run."""
        receiver, sender = _PROCESSES.Pipe(duplex=False)
        reached: list[set[Writer]] = []
        listener = threading.Thread(target=lambda: reached.append(receiver.recv()), daemon=True)
        listener.start()
        self._play(path, facts, point=None, report=sender)
        listener.join(_LIFE_SECONDS)
        return reached[0]

    def _play(self, path: Path, facts: Facts, *, point: Point | None, report: "Connection | None") -> bool:
        process = _PROCESSES.Process(
            target=victims.perform, args=(path.act, facts, self.database, self.log, report), daemon=True
        )
        has_started, has_died = threading.Event(), threading.Event()

        def strike() -> None:
            has_started.wait()  # until then there is no process to be named, though it may be at work already
            has_died.set()
            process.kill()

        self.wire.watch(point, reached=strike)
        process.start()
        has_started.set()
        process.join(_LIFE_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise _Failed(f"a process hangs after {self.wire.statements[-3:]}")
        eventually(lambda: not self._sessions(), "the server has ended the sessions of the dead", timeout=30)
        if not has_died.is_set() and process.exitcode:
            raise _Failed(f"a process ended with {process.exitcode}:\n{last_lines(self.log)}")
        return has_died.is_set()

    def _sessions(self) -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE client_port = ANY(%s)"
        [(count,)] = sql.fetch(query, [self.wire.ports])
        return int(count)


@contextmanager
def stage() -> Iterator[Stage]:
    """On Django's database, for the length of the block; it is emptied again and again."""
    here = connection.settings_dict
    with (
        scenes.LETTERS,
        Wire(to=(here["HOST"], int(here["PORT"]))) as wire,
        tempfile.TemporaryDirectory(prefix="pin-calendar-sweep-") as logs,
    ):
        _PROCESSES.set_forkserver_preload([victims.__name__, Path.__module__])
        yield Stage(wire, {"HOST": HOST, "PORT": str(wire.port), "NAME": here["NAME"]}, File(logs) / "log")


def sweep(path: Path, *, on: Stage) -> Result:
    """The path undisturbed, then with a death at each of its statements, in turn."""
    result = Result()
    try:
        _sweep(path, on, result)
    except _Failed as failure:
        result.faults.append(str(failure))
    return result


def _sweep(path: Path, on: Stage, result: Result) -> None:
    facts = _set(path)
    before = state.read()
    result.reached = on.play_and_look(path, facts)
    after = state.read()
    if before == after:
        result.faults.append("undisturbed, it writes nothing")
    result.faults += _broken(path, is_done=True)
    seen = [before, after]
    for when in path.deaths:
        for number in count():
            facts = _set(path)
            if not on.play(path, facts, point=Point(number, when)):
                break
            result.deaths += 1
            place = f"death {when} statement {number}, {on.wire.statements[number][:80]}"
            found = state.read()
            if found not in seen:
                seen.append(found)
            faults = _broken(path, is_done=False)
            if path.is_worker or found == before:
                Delivery.objects.update(next_attempt_at=clock.now())  # the leases of the dead are over
                OutboxBlockedKey.objects.update(next_attempt_at=clock.now())
                on.play(path, facts)
                faults += _broken(path, is_done=True)
            if (end := state.read()) != after:
                faults.append(f"ends otherwise than undisturbed: {state.difference(after, end)}")
            result.faults += (f"{place}: {fault}" for fault in faults)
    result.states = len(seen)
    if len(seen) > path.commits + 1:
        result.faults.append(f"{len(seen)} states instead of {path.commits + 1}: something was half done")


def _set(path: Path) -> Facts:
    state.clear()
    with correlated():
        return path.scene()


def _broken(path: Path, *, is_done: bool) -> list[str]:
    """Which invariants do not hold; and, once all is done, what of the outbox is not on Kafka, in order."""
    broken = violations()
    if path.is_told and is_done:
        told = [str(id_) for (id_,) in sql.fetch("SELECT message_id FROM outbox_messages ORDER BY key, topic, id")]
        records = kafka_reader.first_deliveries(kafka_reader.read_all(os.environ["KAFKA_BOOTSTRAP_SERVERS"]))
        heard = [record for record in records if record.message_id in set(told)]
        if [record.message_id for record in sorted(heard, key=lambda r: (r.key, r.topic, r.offset))] != told:
            broken.append(f"lost or out of order on Kafka: {len(told)} told, {len(heard)} heard")
    return broken
