"""Several hands at once: threads with connections of their own, and a second connection that holds locks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from core import sql
from tests.waiting import eventually


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Start all at one moment, each in a thread of its own; what each returned or raised, in order."""
    outcomes: list[Any] = [None] * len(acts)
    barrier = threading.Barrier(len(acts))

    def run(place: int, act: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            outcomes[place] = act()
        except Exception as error:  # the outcome that the test looks at
            outcomes[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=numbered) for numbered in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def blocked(act: Callable[[], Any]) -> Callable[[], Any]:
    """Start `act` in a thread; returns once it waits for a lock, which the caller's transaction holds.

    What is returned gives, after that transaction, the outcome of `act`.
    """
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.extend(together(act)))
    thread.start()
    eventually(is_anybody_waiting, "another session waits for a lock")

    def finish() -> Any:
        thread.join()
        return outcome[0]

    return finish


def is_anybody_waiting() -> bool:
    return bool(sql.fetch("SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1"))


@contextmanager
def held_elsewhere(statement: str, *params: object, commits: bool = False) -> Iterator[None]:
    """Another session runs the statement in a transaction that stays open for the block, and then ends."""
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname=settings["NAME"],
    ) as other:
        other.execute(statement, params)
        yield
        if commits:
            other.commit()
        else:
            other.rollback()
