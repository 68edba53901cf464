"""What the appointments' cascade does to a slot and to an event, and what it refuses to start from."""

import datetime
from dataclasses import asdict, replace
from typing import Any

import pytest

from audit.log import Line
from audit.models import Aggregate
from contracts.calendar import EventReason
from core.errors import Inconsistent
from core.ids import new_id
from pin_calendar import events, slots
from pin_calendar.events import Event
from pin_calendar.models import AvailabilitySlot, CalendarEvent, EventOrigin
from pin_calendar.slots import Slot
from tests.factories import DAY, HOUR, MICROSECOND, MINUTE, NOON, TENANT, SlotFactory


def a_slot(*, status: str = "Booked", start_at: datetime.datetime = NOON + HOUR, lead_minutes: int = 60) -> Slot:
    return Slot(
        id=new_id(),
        tenant_id=TENANT,
        owner_user_id=new_id(),
        start_at=start_at,
        end_at=start_at + HOUR,
        time_zone="Europe/Riga",
        min_lead_time_minutes=lead_minutes,
        auto_confirm=False,
        status=status,
        version=1,
    )


def an_event(*, origin: EventOrigin = EventOrigin.MANUAL, status: str = "Scheduled") -> Event:
    event = events.new(
        tenant_id=TENANT,
        owner_user_id=new_id(),
        client_user_id=None,
        origin=origin,
        source_id=None if origin is EventOrigin.MANUAL else new_id(),
        title="Показ",
        start_at=NOON + DAY,
        end_at=NOON + DAY + HOUR,
        time_zone="Europe/Riga",
    )
    return replace(event, status=status)


# INV-SLT-5


@pytest.mark.parametrize(
    ("as_of", "to"),
    [
        (NOON - DAY, "Available"),
        (NOON, "Available"),
        (NOON + MICROSECOND, "Expired"),
        (NOON + HOUR, "Expired"),
        (NOON + DAY, "Expired"),
    ],
)
def test_inv_slt_5_a_released_slot_is_available_up_to_its_lead_time_and_expired_after(
    as_of: datetime.datetime, to: str
) -> None:
    assert slots.release(a_slot(), as_of=as_of).to == to


def test_without_a_lead_time_a_slot_is_available_up_to_its_very_start() -> None:
    slot = a_slot(lead_minutes=0)

    assert slots.release(slot, as_of=slot.start_at).to == "Available"
    assert slots.release(slot, as_of=slot.start_at + MICROSECOND).to == "Expired"


@pytest.mark.parametrize("status", ["Available", "Expired", "Withdrawn"])
def test_only_a_booked_slot_is_released(status: str) -> None:
    with pytest.raises(Inconsistent):
        slots.release(a_slot(status=status), as_of=NOON)


@pytest.mark.django_db
def test_a_slot_that_is_not_as_it_was_read_is_not_written() -> None:
    stored = SlotFactory.create(status="Booked")
    seen = slots.read(stored.id)
    assert seen is not None
    AvailabilitySlot.objects.update(version=2)

    with pytest.raises(Inconsistent, match="1 of 1 slots"):
        slots.write([slots.release(seen, as_of=NOON)], as_of=NOON)

    stored.refresh_from_db()
    assert (stored.status, stored.version) == ("Booked", 2)


# Events


@pytest.mark.parametrize("status", ["Completed", "Cancelled"])
def test_a_finished_event_is_not_finished_moved_or_edited_again(status: str) -> None:
    event = an_event(status=status)

    for attempt in (
        lambda: events.cancel(event, reason=EventReason.OWNER_REQUEST, cancel_reason=""),
        lambda: events.complete(event),
        lambda: events.move(event, start_at=NOON, end_at=NOON, time_zone="UTC"),
        lambda: events.edit(event, title="Другое"),
    ):
        with pytest.raises(Inconsistent):
            attempt()


@pytest.mark.parametrize("origin", EventOrigin)
def test_each_status_change_of_an_event_of_any_origin_is_told_and_nothing_else(origin: EventOrigin) -> None:
    event = an_event(origin=origin)
    finished = events.cancel(event, reason=EventReason.CRM, cancel_reason="Сделка закрыта")
    edited = events.edit(event, title="Другое")

    [message] = events.messages([edited, finished], as_of=NOON)

    assert (message.previous_status, message.status, message.reason) == ("Scheduled", "Cancelled", "Crm")
    assert (message.event_id, message.aggregate_version, message.origin.value) == (event.id, 2, origin.value)
    assert message.appointment_id == (event.source_id if origin is EventOrigin.APPOINTMENT else None)
    assert "Сделка" not in message.to_json()
    assert "Показ" not in message.to_json()


def test_a_new_event_is_scheduled_reminds_a_day_and_an_hour_before_and_is_otherwise_as_asked_for() -> None:
    asked_for: dict[str, Any] = {
        "tenant_id": TENANT,
        "owner_user_id": new_id(),
        "client_user_id": new_id(),
        "origin": EventOrigin.APPOINTMENT,
        "source_id": new_id(),
        "title": "Показ",
        "start_at": NOON,
        "end_at": NOON + HOUR,
        "time_zone": "Europe/Riga",
    }

    event = events.new(**asked_for)

    made = {"reminder_offsets_minutes": [1_440, 60], "status": "Scheduled", "cancel_reason": "", "version": 1}
    assert asdict(event) == {"id": event.id} | asked_for | made


def test_a_finished_event_keeps_the_text_it_was_cancelled_with_and_the_code_for_services_apart() -> None:
    event = an_event()

    cancelled = events.cancel(event, reason=EventReason.CRM, cancel_reason="Сделка закрыта")
    completed = events.complete(event, reason=EventReason.OWNER_REQUEST)

    assert (cancelled.after.cancel_reason, cancelled.reason, cancelled.after.version) == ("Сделка закрыта", "Crm", 2)
    assert (completed.after.cancel_reason, completed.reason, completed.after.version) == ("", "OwnerRequest", 2)
    assert (cancelled.after.status, completed.after.status) == ("Cancelled", "Completed")


def test_a_line_of_the_audit_log_names_the_event_its_tenant_and_both_states() -> None:
    event = an_event()

    assert events.creation_lines([event], verb="create") == [
        Line(Aggregate.EVENT, event.id, event.tenant_id, "create", "", "Scheduled")
    ]
    assert events.audit_lines([events.complete(event)], verb="complete") == [
        Line(Aggregate.EVENT, event.id, event.tenant_id, "complete", "Scheduled", "Completed")
    ]


@pytest.mark.django_db
def test_an_event_that_is_not_as_it_was_read_is_not_written() -> None:
    event = an_event()
    events.insert([event], as_of=NOON)
    CalendarEvent.objects.update(version=5)

    with pytest.raises(Inconsistent, match="1 of 1 events"):
        events.write([events.complete(event)], as_of=NOON + MINUTE)

    assert CalendarEvent.objects.get().status == "Scheduled"


@pytest.mark.django_db
def test_every_column_that_may_change_is_written_and_no_other_event() -> None:
    event, other = an_event(), an_event()
    events.insert([event, other], as_of=NOON)
    edited = events.edit(
        event,
        owner_user_id=new_id(),
        client_user_id=new_id(),
        title="Другое",
        start_at=NOON + 2 * DAY,
        end_at=NOON + 2 * DAY + MINUTE,
        time_zone="Asia/Omsk",
        reminder_offsets_minutes=[5],
    )

    events.write([edited], as_of=NOON + MINUTE)

    assert events.lock(event.id) == edited.after
    assert events.lock(other.id) == other
    cancelled = events.cancel(edited.after, reason=EventReason.OWNER_REQUEST, cancel_reason="Передумал")
    events.write([cancelled], as_of=NOON + HOUR)
    assert events.lock(event.id) == cancelled.after
    stored = CalendarEvent.objects.get(pk=event.id)
    assert (stored.created_at, stored.updated_at) == (NOON, NOON + HOUR)
    assert list(stored.reminders.values_list("offset_minutes", "status", "skip_reason")) == [
        (5, "Skipped", "event_cancelled")
    ]
