"""What it costs the relay to find nothing: with much published history, and while a reader keeps all that died."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.core.management import call_command
from prometheus_client import CollectorRegistry

from benchmarks import database, messages
from benchmarks.runner import Report, Row
from core import clock, sql
from outbox import queue
from outbox.kafka import Sender
from outbox.metrics import RelayMetrics
from outbox.tenure import Tally, Tenure
from tests.workers.processes import database_url

_BURST = 2_000
_FEW, _MANY = 10_000, 100_000
_POLLS = 9


@contextmanager
def _relaying() -> Iterator[Tenure]:
    sender = Sender()
    tenure = Tenure(sender=sender, metrics=RelayMetrics(CollectorRegistry()))
    try:
        _publish(tenure)
        yield tenure
    finally:
        tenure.close()
        sender.close()


def _publish(tenure: Tenure) -> int:
    """All that is in the queue, and once more, for the floor to settle."""
    tally = Tally()
    for _ in range(2):
        tenure.publish(tally, as_of=clock.now(), limit=_BURST, keep_going=lambda: True)
    return tally.published


def _buffers(tenure: Tenure) -> list[float]:
    """Pages that PostgreSQL looks at to find nothing."""
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {queue.read_statement(tenure.shards)}"
    found = []
    for _ in range(_POLLS):
        [(plan,)] = tenure.session.execute(explain, {"above": tenure.floor.id, "limit": _BURST}).fetchall()
        top = plan[0]["Plan"]
        assert top["Actual Rows"] == 0
        found.append(float(top["Shared Hit Blocks"] + top["Shared Read Blocks"]))
    return found


def _tell(count: int, *, is_queued: bool) -> None:
    with psycopg.connect(database_url()) as writer:
        messages.tell(writer, count, is_queued=is_queued)


def _after(*, publishing: int) -> list[float]:
    with database.copy("history"), _relaying() as tenure:
        _tell(publishing, is_queued=True)
        assert _publish(tenure) == publishing
        sql.execute("VACUUM outbox_ready")
        return _buffers(tenure)


def _while_a_reader_holds_xmin(*, publishing: int) -> list[float]:
    with database.copy("history"), _relaying() as tenure, psycopg.connect(database_url()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM outbox_ready")
        _tell(publishing, is_queued=True)
        assert _publish(tenure) == publishing
        sql.execute("VACUUM outbox_ready")
        return _buffers(tenure)


def measure(*, published: int) -> Report:
    """With little history and with much; then with more and more dead queue rows that a reader keeps."""
    call_command("ensure_topics", verbosity=0)
    little, much = f"{_FEW:,} published", f"{published:,} published"
    few_dead, many_dead = f"{_FEW:,} while a reader holds xmin", f"{_MANY:,} while a reader holds xmin"
    with database.template("history"):
        pass
    measured = {little: _after(publishing=_FEW), few_dead: _while_a_reader_holds_xmin(publishing=_FEW)}
    with database.template("history"):
        _tell(published, is_queued=False)
    measured |= {much: _after(publishing=_FEW), many_dead: _while_a_reader_holds_xmin(publishing=_MANY)}
    database.drop("history")

    def row(name: str, against: str) -> Row:
        return Row(name, against, max(measured[name]) / max(measured[against]), 1.5, is_at_most=True)

    return Report(
        subject="poll",
        title="A poll of the relay that finds nothing",
        command=f'make bench ARGS="poll --published {published}"',
        rows=[row(much, little), row(many_dead, few_dead)],
        figures=list(measured.items()),
        unit="pages (shared buffers) a poll",
        remarks=[
            f"{_POLLS} polls of one relay that owns all shards. A page more for each of them is a level more of the "
            f"index; without a floor, each poll would walk all rows that the reader keeps from being vacuumed."
        ],
    )
