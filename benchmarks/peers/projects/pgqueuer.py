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


def configure() -> None:
    """Nothing is left to do."""


def fill() -> int:
    return asyncio.run(_fill())


async def _fill() -> int:
    session = await asyncpg.connect(DATABASE)
    queries = Queries(AsyncpgDriver(session))
    await queries.install()
    jobs = [appointment_id.encode() for (appointment_id,) in await session.fetch(OVERDUE)]
    await queries.enqueue(["expire"] * len(jobs), list(jobs), [0] * len(jobs))
    await session.close()
    return len(jobs)


def work() -> int:
    """One worker until nothing is due."""
    return asyncio.run(_work())


async def _work() -> int:
    run, session = Run(), await asyncpg.connect(DATABASE)
    queue = PgQueuer(AsyncpgDriver(session))
    async with asyncpg.create_pool(DATABASE, min_size=SESSIONS, max_size=SESSIONS) as pool:

        @queue.entrypoint("expire")  # type: ignore[untyped-decorator]  # only that environment has the types
        async def expire(job: Job) -> None:
            status = await pool.execute(ONE, *run.parameters((job.payload or b"").decode()))
            run.note(int(status.split()[-1]))

        await queue.run(batch_size=_BATCH, mode=QueueExecutionMode.drain)
    return run.expired
