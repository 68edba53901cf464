"""What the database holds, in the form of the model, so that the two compare with `==`. Read by one query."""

import dataclasses
import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from core import sql
from tests.model import records
from tests.model.model import Model

Row = dict[str, Any]
Telling = tuple[str, dict[str, Any]]

AGGREGATES = {"availability_slots": "slots", "calendar_events": "events", "appointments": "appointments"}
OTHERS = ("event_reminders", "reassignment_conflicts", "outbox_messages", "audit_log")


def assert_equal(model: Model) -> None:
    """The database is what the model says: every column of every row, every message, every line of the audit log."""
    tables = _read([*AGGREGATES, *OTHERS])
    for table, name in AGGREGATES.items():
        rows: dict[UUID, Any] = getattr(model, name)
        assert {row["id"]: row for row in tables[table]} == {id_: vars(row) for id_, row in rows.items()}, name
    assert _counted(tables["event_reminders"], records.Reminder) == Counter(map(dataclasses.astuple, model.reminders))
    left_behind = [row for row in tables["reassignment_conflicts"] if row["resolved_at"] is None]
    assert {(row["appointment_id"], row["to_owner_user_id"]) for row in left_behind} == model.conflicts
    assert _told(tables["outbox_messages"], tables["event_reminders"]) == _told_by(model)
    # Transitions of status, and every row of the matrix, whether it changes the status or not.
    lines = [
        line
        for line in tables["audit_log"]
        if line["aggregate"] == "Appointment" or line["from_status"] != line["to_status"]
    ]
    assert _counted(lines, records.AuditLine) == Counter(map(dataclasses.astuple, model.audited))


def _read(names: Sequence[str]) -> dict[str, list[Row]]:
    selects = (f"(SELECT coalesce(jsonb_agg(t ORDER BY t.id), '[]')::text FROM {name} AS t)" for name in names)
    [tables] = sql.fetch(f"SELECT {', '.join(selects)}")
    return {name: [_typed(row) for row in rows] for name, rows in zip(names, map(json.loads, tables), strict=True)}


def _typed(row: Row) -> Row:
    """JSON has no instants and no UUIDs; the columns' names tell which are."""
    typed = dict(row)
    for name, value in row.items():
        if value is not None and name.endswith("_at"):
            typed[name] = datetime.datetime.fromisoformat(value)
        elif isinstance(value, str) and (name == "id" or name.endswith("_id")):
            typed[name] = UUID(value)
    return typed


def _counted(rows: Iterable[Row], kind: type) -> "Counter[tuple[Any, ...]]":
    names = [field.name for field in dataclasses.fields(kind)]
    return Counter(tuple(row[name] for name in names) for row in rows)


def _told(messages: Iterable[Row], reminders: Iterable[Row]) -> dict[str, list[Telling]]:
    """By key, in their order. A reminder's id, which the model has not, is checked here: one message each."""
    sent = {str(row["id"]): row for row in reminders if row["status"] == "Sent"}
    told: dict[str, list[Telling]] = defaultdict(list)
    for message in messages:
        value = json.loads(message["payload"])
        if "reminderId" in value:
            row = sent.pop(value.pop("reminderId"))
            assert (str(row["event_id"]), row["sent_at"]) == (message["key"], message["created_at"])
            assert row["offset_minutes"] == value["offsetMinutes"]
        assert str(message["tenant_id"]) == value["tenantId"]
        told[message["key"]].append((message["topic"].removeprefix("pin.calendar.").removesuffix(".v1"), value))
    assert not sent, "these were sent without a message"
    return told


def _told_by(model: Model) -> dict[str, list[Telling]]:
    told: dict[str, list[Telling]] = defaultdict(list)
    for message in model.told:
        told[message.key].append((message.topic, message.value))
    return told
