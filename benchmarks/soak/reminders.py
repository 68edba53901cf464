"""AC8: thousands of reminders become due within one minute; a dispatcher at its usual pace and a relay send them.

Each is Sent within two minutes of its due_at.
"""

import datetime
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.processes import worker
from benchmarks.rows import due_reminders
from benchmarks.runner import console
from benchmarks.soak.report import Report
from contracts.calendar import ReminderDue
from core import clock, sql
from tests.kafka_reader import first_deliveries, read_all

_LIMIT = datetime.timedelta(minutes=2)
_FIRST_DUE_IN = datetime.timedelta(seconds=15)


def run(*, count: int, interval: float, command: str) -> Report:
    """On a migrated database and with topics."""
    last_due = clock.now() + _FIRST_DUE_IN + datetime.timedelta(minutes=1)
    due_reminders(count, as_of=last_due, within=datetime.timedelta(minutes=1))
    console.print(f"{count:,} reminders become due within a minute; dispatcher each {interval:g} s, relay")
    dispatcher, relay = ("run_reminder_dispatch", "--interval", f"{interval:g}"), ("run_outbox_relay",)
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(*command)) for command in (dispatcher, relay)]

        def is_done() -> bool:
            for running in workers:
                running.refuse_to_be_dead()
            [(left,)] = sql.fetch(
                "SELECT (SELECT count(*) FROM event_reminders WHERE status = 'Pending')"
                " + (SELECT count(*) FROM outbox_ready)"
            )
            return bool(left == 0)

        _wait_for(is_done, seconds=_FIRST_DUE_IN.total_seconds() + 60 + 2 * interval + _LIMIT.total_seconds())
    return _report(count, records=_on_kafka(), command=command)


def _wait_for(condition: Callable[[], bool], *, seconds: float) -> None:
    """Returns late rather than never: what has not been done by then is told by the table."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.5)


def _on_kafka() -> int:
    records = read_all(os.environ["KAFKA_BOOTSTRAP_SERVERS"], [ReminderDue.TOPIC], timeout=60)
    return len({record.value["reminderId"] for record in first_deliveries(records)})


def _report(count: int, *, records: int, command: str) -> Report:
    [(sent, median, late, latest)] = sql.fetch(
        """
        SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY sent_at - due_at),
               percentile_cont(0.99) WITHIN GROUP (ORDER BY sent_at - due_at), max(sent_at - due_at)
        FROM event_reminders WHERE status = 'Sent'
        """
    )
    [(told,)] = sql.fetch("SELECT count(*) FROM outbox_messages")
    lines: Sequence[tuple[str, str, bool]] = (
        ("sent", f"{sent:,} of {count:,}", sent == count),
        ("messages in the outbox", f"{told:,}", told == count),
        ("different reminders on Kafka", f"{records:,}", records == count),
        ("lag, median", _seconds(median), True),
        ("lag, 99 of 100", _seconds(late), True),
        ("lag, longest", f"{_seconds(latest)}, at most {_seconds(_LIMIT)}", sent > 0 and latest <= _LIMIT),
    )
    rows = [(what, value, "yes" if holds else "**no**") for what, value, holds in lines]
    return Report(
        part="reminders",
        command=command,
        tables=[[("reminders due within a minute", "", "holds"), *rows]],
        holds=all(holds for *_, holds in lines),
    )


def _seconds(span: datetime.timedelta | None) -> str:
    return "-" if span is None else f"{span.total_seconds():.1f} s"
