"""The whole of a request waits for rows of others at most API_LOCK_TIMEOUT_MS, however many statements wait in turn."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from psycopg.pq import TransactionStatus

# A limit is set anew only once a wait has eaten this much of it: else every statement would cost two.
_PRECISION_MS = 100


class _Budget:
    """Django's execute wrapper: gives each transaction what is left as its lock_timeout, and lowers it after waits."""

    def __init__(self, milliseconds: int) -> None:
        self._left_ms = float(milliseconds)
        self._given_ms = 0.0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if connection.in_atomic_block:
            status = connection.connection.info.transaction_status if connection.connection else TransactionStatus.IDLE
            is_first = status == TransactionStatus.IDLE
            if is_first or (status == TransactionStatus.INTRANS and self._given_ms - self._left_ms > _PRECISION_MS):
                self._given_ms = max(1.0, self._left_ms)
                with connection.cursor() as cursor:
                    cursor.cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{self._given_ms:.0f}ms"])
        began = time.monotonic()
        try:
            return execute(sql, params, many, context)
        finally:
            self._left_ms -= (time.monotonic() - began) * 1_000


@contextmanager
def waiting_at_most(milliseconds: int) -> Iterator[None]:
    """Within the block the transactions together wait no longer than that; then lock_not_available is raised."""
    with connection.execute_wrapper(_Budget(milliseconds)):
        yield
