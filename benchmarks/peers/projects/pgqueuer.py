"""A project that uses pgqueuer: an entry point that runs the statement on a session of its own."""

import asyncio

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.expiry import ONE
from benchmarks.peers.projects.jobs import DATABASE, OVERDUE, SESSIONS, Run

_BATCH = 100

_runner = asyncio.Runner()


class _Sessions:
    """Of the queue itself, and of its jobs."""

    queue: asyncpg.Connection
    jobs: asyncpg.Pool


def configure() -> None:
    """The sessions are open before anything is measured."""
    _runner.run(_open())


async def _open() -> None:
    _Sessions.queue = await asyncpg.connect(DATABASE)
    _Sessions.jobs = await asyncpg.create_pool(DATABASE, min_size=SESSIONS, max_size=SESSIONS)


async def _close() -> None:
    await _Sessions.jobs.close()
    await _Sessions.queue.close()


def fill() -> int:
    return _runner.run(_fill())


async def _fill() -> int:
    queries = Queries(AsyncpgDriver(_Sessions.queue))
    await queries.install()
    jobs = [appointment_id.encode() for (appointment_id,) in await _Sessions.queue.fetch(OVERDUE)]
    await queries.enqueue(["expire"] * len(jobs), list(jobs), [0] * len(jobs))
    await _close()
    return len(jobs)


def work() -> int:
    """One worker until nothing is due."""
    return _runner.run(_work())


async def _work() -> int:
    run, queue = Run(), PgQueuer(AsyncpgDriver(_Sessions.queue))

    @queue.entrypoint("expire")  # type: ignore[untyped-decorator]  # only that environment has the types
    async def expire(job: Job) -> None:
        status = await _Sessions.jobs.execute(ONE, *run.parameters((job.payload or b"").decode()))
        run.note(int(status.split()[-1]))

    await queue.run(batch_size=_BATCH, mode=QueueExecutionMode.drain)
    await _close()
    return run.expired
