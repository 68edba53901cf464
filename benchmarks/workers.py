"""Workers side by side: what two and four processes make of the backlog that one works off."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import psycopg

from benchmarks import database, reminders, rows, timeout
from benchmarks.processes import worker
from benchmarks.runner import Contender, Report, Row, rates, ratio
from core import clock, sql
from tests.bulk import overdue_appointments
from tests.waiting import eventually
from tests.workers.processes import database_url

_COUNTS = (1, 2, 4)
_SECONDS = 300


@dataclass(frozen=True)
class _Backlog:
    """A kind of work; until its table is unlocked, no worker gets to any."""

    name: str
    template: str
    table: str
    command: Sequence[str]
    items: int
    check: Callable[..., None]

    def contender(self, workers: int) -> Contender:
        crew = _Crew(self, workers)
        return Contender(f"{self.name}, {workers}", crew.work, crew.prepared, partial(self.check, expected=self.items))

    def rows(self, measured: dict[str, list[float]]) -> list[Row]:
        one, *more = (f"{self.name}, {workers}" for workers in _COUNTS)
        return [Row(name, one, ratio(measured, name, one), 1) for name in more]


class _Crew:
    """So many processes, as an operator runs them; they wait for a lock until their work is measured."""

    def __init__(self, backlog: _Backlog, workers: int) -> None:
        self._backlog = backlog
        self._count = workers

    @contextmanager
    def prepared(self) -> Iterator[None]:
        with database.copy(self._backlog.template), ExitStack() as stack:
            self._gate = stack.enter_context(psycopg.connect(database_url()))
            self._gate.execute(f"LOCK TABLE {self._backlog.table} IN ACCESS EXCLUSIVE MODE")
            patient = {"DATABASE_LOCK_TIMEOUT_MS": "0", "DATABASE_STATEMENT_TIMEOUT_MS": "0"}
            environ = {**os.environ, **patient, "DATABASE_URL": database_url()}
            self._workers = [
                stack.enter_context(worker(*self._backlog.command, environ=environ)) for _ in range(self._count)
            ]
            eventually(self._are_ready, f"{self._count} workers wait", timeout=60)
            yield

    def work(self) -> int:
        self._gate.commit()
        for running in self._workers:
            running.wait(_SECONDS)
        return self._backlog.items

    def _are_ready(self) -> bool:
        [(waiting,)] = sql.fetch(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(waiting == self._count)


def measure(*, runs: int, items: int) -> Report:
    """One, two and four of each worker over the same backlog."""
    now, due = clock.now(), items * 5 // 2
    with database.template("overdue"):
        overdue_appointments(items, as_of=now)
    with database.template("due"):
        rows.due_reminders(due, as_of=now)
    expire = ("run_appointment_timeout", "--once", "--drain", "--chunk-size", str(timeout.CHUNK))
    backlogs = (
        _Backlog("timeout --drain", "overdue", "appointments", expire, items, timeout.check),
        _Backlog("dispatcher", "due", "event_reminders", ("run_reminder_dispatch", "--once"), due, reminders.check),
    )
    measured = rates([backlog.contender(count) for backlog in backlogs for count in _COUNTS], runs=runs)
    for name in ("overdue", "due"):
        database.drop(name)
    return Report(
        subject="workers",
        title="Workers side by side",
        command=f'make bench ARGS="workers --runs {runs} --items {items}"',
        rows=[row for backlog in backlogs for row in backlog.rows(measured)],
        figures=list(measured.items()),
        unit="items a second",
        remarks=[
            f"{items:,} overdue in chunks of {timeout.CHUNK}, {due:,} due in chunks of {reminders.CHUNK}. All "
            "processes are ready before it is measured, and it ends with the last of them; after each run all items "
            "are looked at: changed, once. Relays side by side, and the order that they keep, are below."
        ],
    )
