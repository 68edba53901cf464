"""What it costs the relay to find nothing: with much published history, and while a reader keeps all that died."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.core.management import call_command
from django.db import connection
from prometheus_client import CollectorRegistry

from benchmarks import database, messages
from benchmarks.runner import Report, Row, console
from core import clock, sql
from outbox import queue
from outbox.kafka import Sender
from outbox.metrics import RelayMetrics
from outbox.publish import SHARDS
from outbox.tenure import Tally, Tenure
from tests.workers.processes import database_url

_BURST = 2_000
_FEW, _DEAD = 10_000, 100_000
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
        [(plan,)] = tenure.session.execute(explain, queue.reading(above=tenure.floor.id, limit=_BURST)).fetchall()
        top = plan[0]["Plan"]
        assert top["Actual Rows"] == 0
        found.append(float(top["Shared Hit Blocks"] + top["Shared Read Blocks"]))
    return found


@contextmanager
def _history(published: int) -> Iterator[None]:
    """A database in which so many messages were published, in use for the block."""
    with database.template("history"), database.bare("outbox_messages"):
        sql.execute(
            """
            INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers,
                                         tenant_id, correlation_id, created_at)
            SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'published:' || n, %(topic)s,
                   n %% %(keys)s, 1, '{}', '{}',
                   '018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-0000000000a2', %(as_of)s
            FROM generate_series(1, %(count)s) AS n
            """,
            {"topic": messages.TOPIC, "keys": messages.KEYS, "count": published, "as_of": clock.now()},
        )
    home = str(connection.settings_dict["NAME"])
    database.use("history")
    try:
        yield
    finally:
        database.use(home)
        database.drop("history")


def _after(*, publishing: int) -> list[float]:
    with _relaying() as tenure:
        return _polls_after(tenure, publishing=publishing)


def _while_a_reader_holds_xmin(*, publishing: int) -> list[float]:
    with _relaying() as tenure, psycopg.connect(database_url()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM outbox_ready")
        return _polls_after(tenure, publishing=publishing)


def _polls_after(tenure: Tenure, *, publishing: int) -> list[float]:
    with psycopg.connect(database_url()) as writer:
        messages.tell(writer, publishing)
    assert _publish(tenure) == publishing
    sql.execute("VACUUM outbox_ready")
    return _buffers(tenure)


def measure(*, published: int) -> Report:
    """With little history and with much; then with dead queue rows too, which a reader keeps."""
    call_command("ensure_topics", verbosity=0)
    little, much = f"{_FEW:,} published", f"{published:,} published"
    held = f"{_DEAD:,} more while a reader holds xmin"
    with _history(0):
        measured = {little: _after(publishing=_FEW)}
    console.print(f"  filling {published:,} rows of history")
    with _history(published):
        measured |= {much: _after(publishing=_FEW), held: _while_a_reader_holds_xmin(publishing=_DEAD)}
    most = {name: max(pages) for name, pages in measured.items()}
    return Report(
        subject="poll",
        title="A poll of the relay that finds nothing",
        command=f'make bench ARGS="poll --published {published}"',
        rows=[
            Row(much, little, most[much] / most[little], 1.5, is_at_most=True),
            Row(held, little, most[held] - most[little], 2 * SHARDS, is_at_most=True, unit=" pages more"),
        ],
        figures=list(measured.items()),
        unit="pages (shared buffers) a poll",
        remarks=[
            f"{_POLLS} polls of one relay that owns all shards. While a reader keeps the dead rows, their index has "
            f"more levels: what is promised is at most 2 pages more for each of the {SHARDS} shards. Without a floor "
            "each poll would walk all those rows, over hundreds of pages. The published messages have empty bodies: a "
            "poll does not read them."
        ],
    )
