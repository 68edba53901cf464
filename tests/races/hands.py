"""Two hands on the same rows, in an order that the test decides."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection

from core import sql
from tests import gates
from tests.waiting import eventually

Act = Callable[[], Any]


class Hand(threading.Thread):
    """An act in a thread with a session of its own, known by `name`; `result` is what it returned or raised."""

    def __init__(self, act: Act, *, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._act = act
        self._outcome: Any = None

    def run(self) -> None:
        try:
            sql.execute("SELECT set_config('application_name', %s, false)", [self.name])
            self._outcome = self._act()
        except Exception as error:  # the outcome that the test looks at
            self._outcome = error
        finally:
            connection.close()

    def result(self) -> Any:
        self.join(30)
        assert not self.is_alive(), f"{self.name} hangs"
        return self._outcome

    def is_done_or_waits_for(self, pid: int) -> bool:
        """Whether it has come as far as it can while the session `pid` goes no further."""
        query = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND %s = ANY(pg_blocking_pids(pid))"
        return not self.is_alive() or bool(sql.fetch(query, [self.name, pid]))


def in_order(
    first: Act,
    second: Act,
    *,
    points: tuple[str, ...] = ("INSERT audit_log", "INSERT outbox_messages"),
    visit: int = 1,
) -> tuple[Any, Any]:
    """What both return or raise: `first` goes up to one of the points (see `gates.gate`), by default with its locks in
    hand and its rows changed; `second` until it is done or waits for `first`; then both to their ends."""
    with gates.gate(*points, visit=visit) as closed:
        one = Hand(first, name=gates.NAME)
        one.start()
        pid = closed.wait_until_reached()
        two = Hand(second, name="the second hand")
        two.start()
        eventually(lambda: two.is_done_or_waits_for(pid), "the second hand is done or waits")
        closed.open()
        return one.result(), two.result()
