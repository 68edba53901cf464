"""Stopping within five seconds of SIGTERM, whatever the process is doing, with nothing half-done.

The main thread asks a plain flag (setting a threading.Event in a signal handler can deadlock). A watchdog thread hears
of the signal through `signal.set_wakeup_fd`, so also while the main thread is inside C code and runs no handler, and
frees it from a database that does not answer: it cancels the statement, then shuts the connection's socket down, and in
the end leaves without it. PostgreSQL rolls back what was not committed.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from core import database, logs

log = logs.get(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CANCEL_AFTER, _DISCONNECT_AFTER, _LEAVE_AFTER = 2.0, 4.0, 4.7  # seconds after the first signal
_CANCEL_TIMEOUT = 1.0
_SLICE = 0.1


class Interrupted(BaseException):
    """The watchdog broke off the running statement. No Exception: no item's error handler may take it for its own."""


class Stop:
    """Whether the process was asked to stop, and a sleep that ends when it is."""

    def __init__(
        self,
        *,
        beat: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.asked = False
        self.beat = beat
        self._sleep = sleep
        self._monotonic = monotonic

    def ask(self) -> None:
        """Ask the process to stop; safe in a signal handler and from any thread."""
        self.asked = True

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the stop is asked for, beating all the while."""
        wake_at = self._monotonic() + seconds
        self.beat()
        while not self.asked and (left := wake_at - self._monotonic()) > 0:
            self._sleep(min(left, _SLICE))
            self.beat()


@contextmanager
def interruptible(connection: BaseDatabaseWrapper, *, stop: Stop) -> Iterator[None]:
    """Statements of the block that the watchdog breaks off raise Interrupted instead of a database error."""

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        try:
            return run(sql, params, many, context)
        except DatabaseError as error:
            if stop.asked and is_broken_off(error):
                raise Interrupted from error
            raise

    with connection.execute_wrapper(execute):
        yield


def is_broken_off(error: BaseException) -> bool:
    """True for what the main thread sees when the watchdog cancelled its statement or cut its connection."""
    return database.is_cancelled(error) or database.is_infrastructure_error(error)


@contextmanager
def on_signals(stop: Stop, *, connection: BaseDatabaseWrapper, until_exit: bool = False) -> Iterator[None]:
    """SIGTERM and SIGINT ask `stop` and start the watchdog over `connection`; a second signal exits at once.

    Does nothing outside the main thread. With `until_exit` a stop that was asked for stays guarded after the block, so
    that what runs at interpreter exit is bounded too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    watchdog = _Watchdog(heard, wakeup, stop=stop, connection=connection)
    previous_handlers = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    previous_wakeup = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    received = 0

    def handle(signum: int, _frame: object) -> None:
        nonlocal received
        received += 1
        if received > 1:
            os._exit(128 + signum)
        stop.ask()

    for signum in _SIGNALS:
        signal.signal(signum, handle)
    watchdog.start()
    try:
        yield
    finally:
        if not (until_exit and stop.asked):
            for signum, handler in previous_handlers.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(previous_wakeup)
            wakeup.close()  # the watchdog reads the end of the stream and ends
            watchdog.join()
            heard.close()


class _Watchdog(threading.Thread):
    def __init__(
        self, heard: socket.socket, wakeup: socket.socket, *, stop: Stop, connection: BaseDatabaseWrapper
    ) -> None:
        super().__init__(name="stop-watchdog", daemon=True)
        self._heard = heard
        self._wakeup = wakeup  # held open for as long as the thread lives
        self._stop_flag = stop
        self._connection = connection

    def run(self) -> None:
        if self._next_signal(timeout=None) is None:
            return
        asked_at = time.monotonic()
        self._stop_flag.ask()
        for after, act in (
            (_CANCEL_AFTER, self._cancel),
            (_DISCONNECT_AFTER, self._disconnect),
            (_LEAVE_AFTER, self._leave),
        ):
            try:
                signum = self._next_signal(timeout=max(0.001, asked_at + after - time.monotonic()))
            except TimeoutError:
                act()
                continue
            if signum is None:
                return
            os._exit(128 + signum)

    def _next_signal(self, *, timeout: float | None) -> int | None:
        """The next SIGTERM or SIGINT, None when the block has ended; raises TimeoutError."""
        self._heard.settimeout(timeout)
        while received := self._heard.recv(1):
            if received[0] in _SIGNALS:
                return received[0]
        return None

    def _cancel(self) -> None:
        raw = self._connection.connection
        if raw is None or raw.info.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
            return
        _tell("cancelling the running statement")
        try:
            raw.cancel_safe(timeout=_CANCEL_TIMEOUT)
        except psycopg.Error as error:
            _tell("running statement not cancelled", error=type(error).__name__)

    def _disconnect(self) -> None:
        raw = self._connection.connection
        if raw is None or raw.closed:
            return
        _tell("shutting the connection down")
        try:
            with socket.socket(fileno=os.dup(raw.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error) as error:
            _tell("connection not shut down", error=type(error).__name__)

    def _leave(self) -> None:
        _tell("leaving without waiting")
        os._exit(0)


def _tell(event: str, **fields: str) -> None:
    """Log in a thread of its own: whoever reads our log may hang as well, and must not hold the watchdog."""
    notice = threading.Thread(target=log.warning, args=(event,), kwargs=fields, daemon=True)
    notice.start()
    notice.join(0.1)
