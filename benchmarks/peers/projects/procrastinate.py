"""A project that uses procrastinate: an asynchronous task that runs the statement on a session of its own."""

import asyncio

import procrastinate
import psycopg
from psycopg.raw_cursor import AsyncRawCursor
from psycopg_pool import AsyncConnectionPool

from benchmarks.expiry import ONE
from benchmarks.peers.projects.jobs import DATABASE, OVERDUE, SESSIONS, Run

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DATABASE))
_pool = AsyncConnectionPool(
    DATABASE, min_size=SESSIONS, open=False, kwargs={"autocommit": True, "cursor_factory": AsyncRawCursor}
)
_run = Run()


@app.task(name="expire")  # type: ignore[untyped-decorator]  # only that environment has the types
async def expire(appointment_id: str) -> None:
    async with _pool.connection() as session:
        cursor = await session.execute(ONE, _run.parameters(appointment_id), prepare=True)
        _run.note(cursor.rowcount)


def configure() -> None:
    """Nothing is left to do."""


def fill() -> int:
    return asyncio.run(_fill())


async def _fill() -> int:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with psycopg.connect(DATABASE) as session:
            jobs = [{"appointment_id": appointment_id} for (appointment_id,) in session.execute(OVERDUE)]
        await expire.batch_defer_async(*jobs)
    return len(jobs)


def work() -> int:
    """One worker until nothing is due."""
    asyncio.run(_work())
    return _run.expired


async def _work() -> None:
    async with _pool, app.open_async():
        await app.run_worker_async(wait=False, concurrency=SESSIONS)
