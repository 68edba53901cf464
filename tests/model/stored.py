"""What the database holds, in the form of the model, so that the two compare with `==`."""

import dataclasses
import json
from collections import Counter, defaultdict
from typing import Any
from uuid import UUID

from django.db.models import F, Model

from appointments.models import Appointment, ReassignmentConflict
from audit.models import AuditLine
from outbox.models import OutboxMessage
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from reminders.models import EventReminder, ReminderStatus
from tests.model import records
from tests.model.model import Model as ServiceModel

Rows = dict[UUID, dict[str, Any]]
Telling = tuple[str, dict[str, Any]]

TABLES: dict[str, type[Model]] = {
    "slots": AvailabilitySlot,
    "events": CalendarEvent,
    "appointments": Appointment,
}


def assert_equal(model: ServiceModel) -> None:
    """The database is what the model says: every column of every row, every message, every line of the audit log."""
    for name, table in TABLES.items():
        assert _rows(table) == _modelled(getattr(model, name)), name
    assert _reminders() == Counter(map(dataclasses.astuple, model.reminders))
    open_conflicts = ReassignmentConflict.objects.filter(resolved_at=None)
    assert set(open_conflicts.values_list("appointment_id", "to_owner_user_id")) == model.conflicts
    assert _told() == _told_by(model)
    assert _audited() == Counter(map(dataclasses.astuple, model.audited))


def _rows(table: type[Model]) -> Rows:
    return {row["id"]: row for row in table._default_manager.values()}


def _modelled(rows: dict[UUID, Any]) -> Rows:
    return {id_: dataclasses.asdict(row) for id_, row in rows.items()}


def _reminders() -> "Counter[tuple[Any, ...]]":
    names = [field.name for field in dataclasses.fields(records.Reminder)]
    return Counter(EventReminder.objects.values_list(*names))


def _told() -> dict[str, list[Telling]]:
    """By key, in their order. A reminder's id, which the model has not, is checked here: one message each."""
    sent = {
        str(id_): (str(event_id), sent_at, offset)
        for id_, event_id, sent_at, offset in EventReminder.objects.filter(status=ReminderStatus.SENT).values_list(
            "id", "event_id", "sent_at", "offset_minutes"
        )
    }
    told: dict[str, list[Telling]] = defaultdict(list)
    for message in OutboxMessage.objects.order_by("id"):
        value = json.loads(message.payload)
        if "reminderId" in value:
            row = sent.pop(value.pop("reminderId"))
            assert row == (message.key, message.created_at, value["offsetMinutes"])
        assert str(message.tenant_id) == value["tenantId"]
        told[message.key].append((message.topic.removeprefix("pin.calendar.").removesuffix(".v1"), value))
    assert not sent, "these were sent without a message"
    return told


def _told_by(model: ServiceModel) -> dict[str, list[Telling]]:
    told: dict[str, list[Telling]] = defaultdict(list)
    for message in model.told:
        told[message.key].append((message.topic, message.value))
    return told


def _audited() -> "Counter[tuple[Any, ...]]":
    """Transitions of status, and every row of the matrix, whether it changes the status or not."""
    names = [field.name for field in dataclasses.fields(records.AuditLine)]
    lines = AuditLine.objects.exclude(from_status=F("to_status")) | AuditLine.objects.filter(aggregate="Appointment")
    return Counter(lines.values_list(*names))
