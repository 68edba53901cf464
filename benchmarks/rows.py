"""What the contenders work on, made by SQL; and whether two of them have done the same."""

import datetime
from collections import Counter
from typing import Any

import orjson

from core import sql


def due_reminders(
    count: int, *, as_of: datetime.datetime, within: datetime.timedelta = datetime.timedelta(minutes=5)
) -> None:
    """Pending reminders that become due one after the other up to `as_of`, each of a meeting an hour later."""
    sql.execute(
        """
        WITH made AS MATERIALIZED (
            SELECT uuidv7() AS event_id, %(as_of)s - n * %(pause)s AS due_at
            FROM generate_series(1, %(count)s) AS n
        ), event AS (
            INSERT INTO calendar_events (id, tenant_id, owner_user_id, client_user_id, origin, source_id, title,
                   start_at, end_at, time_zone, reminder_offsets_minutes, status, cancel_reason, version, created_at,
                   updated_at)
            SELECT event_id, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'Appointment', gen_random_uuid(),
                   '', due_at + interval '1 hour', due_at + interval '2 hours', 'Europe/Moscow', '{60}', 'Scheduled',
                   '', 1, due_at - interval '1 day', due_at - interval '1 day' FROM made
        )
        INSERT INTO event_reminders (id, event_id, offset_minutes, due_at, status, created_at, updated_at)
        SELECT uuidv7(), event_id, 60, due_at, 'Pending', due_at - interval '1 day', due_at - interval '1 day' FROM made
        """,
        {"count": count, "as_of": as_of, "pause": within / count},
    )


_TABLES = ("appointments", "availability_slots", "calendar_events", "event_reminders", "audit_log", "outbox_messages")
# Made anew by each contender, so never the same.
_OWN = {"audit_log": ("id", "correlation_id"), "outbox_messages": ("id", "message_id", "correlation_id")}
_OWN_HEADERS = ("ce_id", "ce_correlationid")


def state() -> Counter[bytes]:
    """Everything that a contender has left behind, but for the ids and the instants that each makes for itself."""
    found: Counter[bytes] = Counter()
    for table in _TABLES:
        for (row,) in sql.fetch(f"SELECT to_jsonb(t)::text FROM {table} AS t"):
            facts = {name: value for name, value in orjson.loads(row).items() if name not in _OWN.get(table, ())}
            for name in ("payload", "headers"):
                if name in facts:
                    facts[name] = _without_own(orjson.loads(facts[name]))
            found[orjson.dumps([table, facts], option=orjson.OPT_SORT_KEYS)] += 1
    for shard, topic, key in sql.fetch(
        "SELECT shard, topic, key FROM outbox_ready JOIN outbox_messages AS message ON message.id = outbox_ready.id"
    ):
        found[orjson.dumps(["outbox_ready", shard, topic, key])] += 1
    return found


def _without_own(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in _OWN_HEADERS}
