"""Published job queues on PostgreSQL: a job for each overdue request, each a lean statement that expires the one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import database
from benchmarks.peers.project import Project
from core import sql


@dataclass
class JobQueue:
    """A contender: its jobs are in the queue before, what is measured is one worker until the queue is empty."""

    name: str
    remark: str
    project: Project
    template: str

    @contextmanager
    def prepared(self) -> Iterator[None]:
        copy = f"{self.template}_copy"
        with database.copy(self.template):
            with self.project.ready("fill", database=copy) as fill:
                fill()
            sql.execute("ANALYZE")
            sql.execute("CHECKPOINT")
            with self.project.ready("work", database=copy) as self._work:
                yield

    def work(self) -> int:
        return self._work()


def all_of(template: str) -> list[Callable[[], JobQueue]]:
    """Each of them over the overdue requests of that database; Absent is raised by those that can't be installed."""
    return [
        lambda: JobQueue(
            name="procrastinate",
            remark="procrastinate 3.10.0: asynchronous tasks, psycopg, concurrency 10.",
            project=Project("procrastinate", "procrastinate==3.10.0", "psycopg[binary]"),
            template=template,
        ),
        lambda: JobQueue(
            name="pgqueuer",
            remark="pgqueuer 1.6.0: asyncpg, batches of 100, `--mode drain`.",
            project=Project("pgqueuer", "pgqueuer[asyncpg]==1.6.0"),
            template=template,
        ),
    ]
