"""From a commit to the broker's acknowledgement, while nothing else happens."""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from unittest import mock

from django.core.management import call_command
from django.db import connections, transaction
from prometheus_client import CollectorRegistry

from benchmarks import database
from benchmarks.runner import Report, Row
from contracts.calendar import EventOrigin, EventStatus, EventStatusChanged
from core import clock, sql
from core.ids import new_id
from outbox import relay
from outbox.metrics import RelayMetrics
from outbox.ownership import OWNERS
from outbox.publish import SHARDS, publish
from outbox.queue import Row as Told
from tests.waiting import eventually
from workers import loop
from workers.loop import Pace
from workers.reporting import Reporter
from workers.stopping import Stop

_PAUSE_SECONDS = 0.03
_WARM_UP = 20
_PACE = Pace(interval=0.25, batch_size=2_000, max_duration=30, drain=True)

_acked: dict[str, float] = {}


class _NotingMetrics(RelayMetrics):
    """Notes the moment that the relay hears of an acknowledgement."""

    def published(self, rows: Sequence[Told]) -> None:
        now = time.perf_counter()
        _acked.update((row.key, now) for row in rows)
        super().published(rows)


@contextmanager
def _relay_running() -> Iterator[None]:
    """A relay in a thread of this process, so that one clock sees both ends."""
    stop = Stop(beat=lambda: None)

    def work() -> None:
        with mock.patch.object(relay, "RelayMetrics", _NotingMetrics), closing(relay.RelayJob()) as job:
            loop.run(job, pace=_PACE, stop=stop, reporter=Reporter(job, registry=CollectorRegistry()))
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        eventually(lambda: len(sql.fetch(OWNERS)) == SHARDS, "the relay owns the shards", timeout=60)
        yield
    finally:
        stop.ask()
        thread.join()


def _tell() -> float:
    """Milliseconds from the end of COMMIT to the acknowledgement of a message told as requests do, now and then."""
    now, committed = clock.now(), []
    change = EventStatusChanged(
        tenant_id=new_id(),
        occurred_at=now,
        aggregate_version=1,
        event_id=new_id(),
        owner_user_id=new_id(),
        origin=EventOrigin.MANUAL,
        previous_status=EventStatus.SCHEDULED,
        status=EventStatus.COMPLETED,
        start_at=now,
        time_zone="Europe/Moscow",
    )
    with transaction.atomic():
        transaction.on_commit(lambda: committed.append(time.perf_counter()))  # before the NOTIFY of `publish`
        sql.execute("SELECT pg_current_xact_id()")
        publish([change], as_of=now)
    time.sleep(_PAUSE_SECONDS)
    eventually(lambda: change.key in _acked, "it is acknowledged", timeout=30)
    return max(0.0, _acked[change.key] - committed[0]) * 1_000


def _run(items: int) -> list[float]:
    """The first messages are not counted: connections are opened, statements prepared."""
    with database.copy("idle"), _relay_running():
        return sorted([_tell() for _ in range(items + _WARM_UP)][_WARM_UP:])


def measure(*, runs: int, items: int) -> Report:
    """A relay of its own and a fresh database for each run."""
    call_command("ensure_topics", verbosity=0)
    with database.template("idle"):
        pass
    measured = [_run(items) for _ in range(runs)]
    database.drop("idle")
    medians = [statistics.median(run) for run in measured]
    late = [statistics.quantiles(run, n=100)[98] for run in measured]
    return Report(
        subject="latency",
        title="From commit to acknowledgement, idle",
        command=f'make bench ARGS="latency --runs {runs} --items {items}"',
        rows=[
            Row("commit to acknowledgement, median", "", statistics.median(medians), 5, is_at_most=True, unit=" ms"),
            Row("commit to acknowledgement, 99 of 100", "", statistics.median(late), 25, is_at_most=True, unit=" ms"),
        ],
        figures=[
            ("fastest", [run[0] for run in measured]),
            ("median", medians),
            ("99 of 100", late),
            ("slowest", [run[-1] for run in measured]),
        ],
        unit="milliseconds",
        remarks=[
            f"{items:,} messages a run, one after the other, {_PAUSE_SECONDS * 1_000:.0f} ms apart, each in a "
            f"transaction of its own, to one relay that waits. Broker: {database.broker()}."
        ],
    )
