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
_runner = asyncio.Runner()


@app.task(name="expire")  # type: ignore[untyped-decorator]  # only that environment has the types
async def expire(appointment_id: str) -> None:
    async with _pool.connection() as session:
        cursor = await session.execute(ONE, _run.parameters(appointment_id), prepare=True)
        _run.note(cursor.rowcount)


def configure() -> None:
    """The sessions are open before anything is measured."""
    _runner.run(_open())


async def _open() -> None:
    await _pool.open(wait=True)
    await app.open_async()


async def _close() -> None:
    await app.close_async()
    await _pool.close()


def fill() -> int:
    return _runner.run(_fill())


async def _fill() -> int:
    await app.schema_manager.apply_schema_async()
    with psycopg.connect(DATABASE) as session:
        jobs = [{"appointment_id": appointment_id} for (appointment_id,) in session.execute(OVERDUE)]
    await expire.batch_defer_async(*jobs)
    await _close()
    return len(jobs)


def work() -> int:
    """One worker until nothing is due."""
    _runner.run(_work())
    return _run.expired


async def _work() -> None:
    await app.run_worker_async(wait=False, concurrency=SESSIONS)
    await _close()
