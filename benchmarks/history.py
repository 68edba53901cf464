"""What history costs: the same cycle over the same few due rows, with little and with much behind them."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from django.db import connection

from appointments.timeout import TimeoutJob
from benchmarks import database, rows
from benchmarks.runner import Report, Row, console, ratio
from core import clock, sql
from reminders.dispatch import DispatchJob
from tests.bulk import overdue_appointments

_DUE = 200
_LITTLE = 10_000
_CYCLES = 40
_TABLES = ("availability_slots", "calendar_events", "appointments", "event_reminders", "audit_log")


def _add(count: int) -> None:
    """Requests that expired over the last years, with slot, cancelled event, two skipped reminders and audit lines."""
    sql.execute(
        """
        CREATE TEMP TABLE made AS
        SELECT ('018f0000-0000-7000-8000-a' || number)::uuid AS appointment_id,
               ('018f0000-0000-7000-8000-b' || number)::uuid AS slot_id,
               ('018f0000-0000-7000-8000-c' || number)::uuid AS event_id,
               md5('owner' || n)::uuid AS owner_id, md5('client' || n)::uuid AS client_id, number,
               %(as_of)s - interval '1 day' - n * interval '1 minute' AS expired_at
        FROM generate_series(1, %(count)s) AS n, lpad(to_hex(n), 11, '0') AS number;
        INSERT INTO availability_slots (id, tenant_id, owner_user_id, start_at, end_at, time_zone,
               min_lead_time_minutes, auto_confirm, status, version, created_at, updated_at)
        SELECT slot_id, '018f0000-0000-7000-8000-0000000000a1', owner_id, expired_at, expired_at + interval '1 hour',
               'Europe/Moscow', 60, false, 'Expired', 3, expired_at, expired_at FROM made;
        INSERT INTO calendar_events (id, tenant_id, owner_user_id, client_user_id, origin, source_id, title, start_at,
               end_at, time_zone, reminder_offsets_minutes, status, cancel_reason, version, created_at, updated_at)
        SELECT event_id, '018f0000-0000-7000-8000-0000000000a1', owner_id, client_id, 'Appointment', appointment_id,
               '', expired_at, expired_at + interval '1 hour', 'Europe/Moscow', '{1440,60}', 'Cancelled',
               'Запись не подтверждена агентом в срок', 2, expired_at, expired_at FROM made;
        INSERT INTO appointments (id, tenant_id, slot_id, calendar_event_id, owner_user_id, client_user_id, status,
               pending_expires_at, cancel_reason, version, created_at, updated_at)
        SELECT appointment_id, '018f0000-0000-7000-8000-0000000000a1', slot_id, event_id, owner_id, client_id,
               'Expired', expired_at, '', 2, expired_at, expired_at FROM made;
        INSERT INTO event_reminders (id, event_id, offset_minutes, due_at, status, skip_reason, created_at, updated_at)
        SELECT ('018f0000-0000-7000-8000-' || which || number)::uuid, event_id, minutes,
               expired_at - minutes * interval '1 minute', 'Skipped', 'event_cancelled', expired_at, expired_at
        FROM made CROSS JOIN (VALUES (1440, 'd'), (60, 'e')) AS o(minutes, which);
        INSERT INTO audit_log (id, tenant_id, aggregate, aggregate_id, verb, from_status, to_status, actor_kind,
               correlation_id, occurred_at)
        SELECT ('018f0000-0000-7000-8000-' || which || number)::uuid, '018f0000-0000-7000-8000-0000000000a1', aggregate,
               CASE aggregate WHEN 'Appointment' THEN appointment_id WHEN 'Slot' THEN slot_id ELSE event_id END,
               'expire', before, after, 'System', appointment_id, expired_at
        FROM made CROSS JOIN (VALUES ('Appointment', 'Pending', 'Expired', '1'), ('Slot', 'Booked', 'Expired', '2'),
                                     ('Event', 'Scheduled', 'Cancelled', '3')) AS o(aggregate, before, after, which);
        DROP TABLE made
        """,
        {"count": count, "as_of": clock.now()},
    )


def _expire(*, chunk_size: int) -> float:
    now = clock.now()
    overdue_appointments(_DUE, as_of=now)
    started = time.perf_counter()
    result = TimeoutJob(chunk_size=chunk_size).cycle(as_of=now, limit=_DUE, keep_going=lambda: True)
    assert result.expired_count == _DUE
    return (time.perf_counter() - started) * 1_000


def _dispatch() -> float:
    # Those of the requests above are Skipped, or not yet due, so that only these are.
    now = clock.now()
    rows.due_reminders(_DUE, as_of=now)
    job = DispatchJob(stale_after=timedelta(minutes=10))
    started = time.perf_counter()
    result = job.cycle(as_of=now, limit=_DUE, keep_going=lambda: True)
    assert result.sent_count == _DUE
    return (time.perf_counter() - started) * 1_000


def measure(*, history: int) -> Report:
    """Cycles on the two databases in turn; the first on each is not counted."""
    for name, count in (("little", _LITTLE), ("much", history)):
        console.print(f"  filling {count:,} rows of history")
        with database.template(name), database.bare(*_TABLES):
            _add(count)
    home = str(connection.settings_dict["NAME"])
    cycles: dict[str, Callable[[], float]] = {
        f"timeout, in one chunk of {_DUE}": partial(_expire, chunk_size=_DUE),
        "timeout, one item a transaction": partial(_expire, chunk_size=1),
        "dispatcher": _dispatch,
    }
    depth = {"little": f"{_LITTLE:,}", "much": f"{history:,}"}
    measured: dict[str, list[float]] = {f"{job}, {rows_} rows": [] for job in cycles for rows_ in depth.values()}
    for number in range(_CYCLES + 1):
        for name in ("little", "much") if number % 2 else ("much", "little"):
            database.use(name)
            for job, cycle in cycles.items():
                milliseconds = cycle()
                if number:
                    measured[f"{job}, {depth[name]} rows"].append(milliseconds)
    database.use(home)
    for name in depth:
        database.drop(name)
    return Report(
        subject="history",
        title="A cycle over 200 due rows as history grows",
        command=f'make bench ARGS="history --history {history}"',
        rows=[
            Row(
                f"{job}: {history:,} rows of history",
                f"{_LITTLE:,} rows",
                ratio(measured, f"{job}, {depth['much']} rows", f"{job}, {depth['little']} rows"),
                1.2,
                is_at_most=True,
            )
            for job in cycles
        ],
        figures=list(measured.items()),
        unit="milliseconds a cycle",
        remarks=[
            "A row of history is an expired request with its slot, its cancelled event, two skipped reminders and the "
            "three audit lines of its end, which are kept for ever; messages, which are not, are left out. "
            f"{_CYCLES} cycles each, on two databases in turn."
        ],
    )
