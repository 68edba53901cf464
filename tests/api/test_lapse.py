"""A request and its slot as people see them: one deadline everywhere, and what becomes of both at the end."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from appointments.matrix import MATRIX, Party, SlotEffect, Verb
from appointments.models import Appointment
from appointments.timeout import TimeoutJob
from contracts.calendar import AppointmentCancelled
from core import clock
from crm import lead_feed
from crm.models import LeadFeedEntry
from outbox.models import OutboxMessage
from pin_calendar.models import AvailabilitySlot
from tests.api.callers import NOBODY, an_admin, an_investor, client, owner
from tests.appointments import state
from tests.appointments.timeouts import always, expire
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOON,
    SlotFactory,
    an_open_appointment,
    an_overdue_appointment,
)

pytestmark = pytest.mark.django_db

Way = Callable[[Appointment], None]


def test_the_deadline_is_one_value_in_row_answer_message_and_worker_to_the_microsecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON + 123_457 * MICROSECOND)
    slot, investor = SlotFactory.create(start_at=NOON + 5 * DAY), an_investor()

    booked = investor.post(f"slots/{slot.id}/book").body

    deadline = Appointment.objects.get().pending_expires_at
    assert deadline == NOON + DAY + 123_457 * MICROSECOND
    [(_, message)] = state.told()
    [listed] = investor.get("appointments").body["items"]
    told = {seen["pendingExpiresAt"] for seen in (booked, message, listed)}
    assert told == {"2030-03-15T12:00:00.123457Z"}
    assert TimeoutJob().cycle(as_of=deadline, limit=9, keep_going=always).expired_count == 0
    assert TimeoutJob().cycle(as_of=deadline + MICROSECOND, limit=9, keep_going=always).expired_count == 1


def by(who: Any, verb: str) -> Way:
    def end(appointment: Appointment) -> None:
        assert who(appointment).post(f"appointments/{appointment.id}/{verb}").status == 200

    return end


def moved_by(who: Any, *, auto_confirm: bool = False) -> Way:
    def move(appointment: Appointment) -> None:
        elsewhere = SlotFactory.create(
            owner_user_id=appointment.owner_user_id, start_at=NOON + 9 * DAY, auto_confirm=auto_confirm
        )
        body = {"slotId": str(elsewhere.id)}
        assert who(appointment).post(f"appointments/{appointment.id}/reschedule", body).status == 200

    return move


def lapsed(appointment: Appointment) -> None:
    Appointment.objects.filter(pk=appointment.pk).update(pending_expires_at=NOON - MINUTE)
    assert expire().expired_count == 1


WAYS_OUT: dict[tuple[Verb, Party], list[Way]] = {
    (Verb.DECLINE, Party.OWNER): [by(owner, "decline")],
    (Verb.CANCEL, Party.CLIENT): [by(client, "cancel")],
    (Verb.CANCEL, Party.OWNER): [by(owner, "cancel")],
    (Verb.EXPIRE, Party.TIMEOUT): [lapsed],
    (Verb.RESCHEDULE, Party.OWNER): [moved_by(owner)],
    (Verb.RESCHEDULE, Party.CLIENT): [moved_by(client), moved_by(client, auto_confirm=True)],
}
EXITS = [
    (row.verb, party, status.value)
    for row in MATRIX
    if row.slot in (SlotEffect.RELEASE, SlotEffect.SWAP)
    for party in sorted(row.by)
    for status in sorted(row.from_)
]


@pytest.mark.parametrize(("ahead", "is_bookable"), [(HOUR, True), (HOUR - MICROSECOND, False)])
@pytest.mark.parametrize(("verb", "party", "status"), sorted(set(EXITS)))
def test_every_way_out_gives_the_slot_back_at_once_by_the_release_rule(
    verb: Verb, party: Party, status: str, ahead: datetime.timedelta, is_bookable: bool
) -> None:
    """The ways are those of the matrix; what is bookable again is on the showcase, and another client has it."""
    for leave in WAYS_OUT[verb, party]:
        appointment = an_open_appointment(status=status, start_at=NOON + ahead)
        assert appointment.slot.min_lead_time_minutes == 60
        assert not is_shown(appointment.slot)

        leave(appointment)

        appointment.slot.refresh_from_db()
        assert appointment.slot.status == ("Available" if is_bookable else "Expired")
        assert is_shown(appointment.slot) is is_bookable
        assert an_investor().post(f"slots/{appointment.slot_id}/book").status == (201 if is_bookable else 409)


def is_shown(slot: AvailabilitySlot) -> bool:
    shown = NOBODY.get("slots", ownerId=slot.owner_user_id).body["items"]
    return str(slot.id) in [item["id"] for item in shown]


def test_expired_is_told_apart_from_cancelled_everywhere() -> None:
    """In filters, messages, the feed of the leads and the worker's metrics."""
    job, registry = TimeoutJob(), CollectorRegistry()
    metrics = job.make_metrics(registry)
    cancelled, declined, expired = an_open_appointment(), an_open_appointment(), an_overdue_appointment()
    client(cancelled).post(f"appointments/{cancelled.id}/cancel")
    owner(declined).post(f"appointments/{declined.id}/decline")

    metrics.record(job.cycle(as_of=NOON, limit=9, keep_going=always))

    for appointment, status in ((cancelled, "Cancelled"), (declined, "Declined"), (expired, "Expired")):
        listed = an_admin().get("appointments", status=status).body["items"]
        assert [(item["id"], item["status"]) for item in listed] == [(str(appointment.id), status)]
    told = {body["appointmentId"]: body["reason"] for topic, body in state.told() if topic == "appointment-cancelled"}
    assert told == {
        str(cancelled.id): "CancelledByClient",
        str(declined.id): "Declined",
        str(expired.id): "Expired",
    }
    for message in OutboxMessage.objects.filter(topic=AppointmentCancelled.TOPIC):
        lead_feed.append(AppointmentCancelled.model_validate_json(message.payload), as_of=NOON)
    assert dict(LeadFeedEntry.objects.values_list("appointment_id", "event")) == {
        cancelled.id: "CancelledByClient",
        declined.id: "Declined",
        expired.id: "Expired",
    }
    counted = registry.get_sample_value("calendar_appointment_timeout_items_total", {"slot_outcome": "released"})
    assert counted == 1
