"""`python -m benchmarks.soak`: real workers under load for minutes, then the proof. `make soak` runs it.

First part, AC8: thousands of reminders become due within one minute, a dispatcher at its usual pace and a relay send
them, and each is Sent within two minutes of its due_at.
"""

import argparse
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rich.table import Table

from benchmarks import database
from benchmarks.processes import worker
from benchmarks.runner import console
from dev.run import MANAGE, migrate

_LIMIT = datetime.timedelta(minutes=2)
_FIRST_DUE_IN = datetime.timedelta(seconds=15)


def main() -> int:
    """The exit code is 1 when a promise is broken."""
    parser = argparse.ArgumentParser(prog="make soak", description="Real workers under load, then the proof.")
    parser.add_argument("--reminders", type=int, default=10_000, help="due in one minute (default: %(default)s)")
    parser.add_argument("--interval", type=float, default=60, help="of the dispatcher, in seconds (default: 60)")
    options = parser.parse_args()
    with database.servers() as environment:
        os.environ.update(environment, LOG_LEVEL="INFO", DJANGO_SETTINGS_MODULE="config.settings")
        migrate(os.environ)
        import django

        django.setup()
        return 0 if send_in_time(count=options.reminders, interval=options.interval) else 1


def send_in_time(*, count: int, interval: float) -> bool:
    """AC8, printed as a table; whether it holds."""
    from benchmarks.rows import due_reminders
    from core import clock, sql

    _run("ensure_topics")
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
    return _tell(count, records=_on_kafka())


def _run(*command: str) -> None:
    subprocess.run([*MANAGE, *command], check=True, stdout=subprocess.DEVNULL)


def _wait_for(condition: Callable[[], bool], *, seconds: float) -> None:
    """Returns late rather than never: what has not been done by then is told by the table."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.5)


def _on_kafka() -> int:
    from contracts.calendar import ReminderDue
    from tests.kafka_reader import first_deliveries, read_all

    records = read_all(os.environ["KAFKA_BOOTSTRAP_SERVERS"], [ReminderDue.TOPIC], timeout=60)
    return len({record.value["reminderId"] for record in first_deliveries(records)})


def _tell(count: int, *, records: int) -> bool:
    from core import sql

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
    table = Table("AC8", "", "holds")
    for what, value, holds in lines:
        table.add_row(what, value, "yes" if holds else "[bold red]no")
    console.print(table)
    return all(holds for *_, holds in lines)


def _seconds(span: datetime.timedelta | None) -> str:
    return "-" if span is None else f"{span.total_seconds():.1f} s"


if __name__ == "__main__":
    sys.exit(main())
