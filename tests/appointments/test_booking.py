"""A client asks for a slot of the showcase."""

import datetime
from functools import partial

import pytest
from django.db import transaction

from appointments import booking, lifecycle, locks
from appointments.booking import LeadTimePassed, SlotTaken
from appointments.matrix import Party, Verb
from appointments.models import Appointment
from appointments.timeout import TimeoutJob
from audit.models import AuditLine
from contracts.base import Message
from contracts.calendar import AppointmentBooked
from core.actors import Actor
from core.correlation import correlated
from core.errors import NotFound
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot
from tests.appointments import state
from tests.appointments.concurrently import blocked, together
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    AppointmentFactory,
    SlotFactory,
    an_overdue_appointment,
    client_of,
)

pytestmark = pytest.mark.django_db


def book(slot: AvailabilitySlot, *, client: Actor | None = None, as_of: datetime.datetime = NOON) -> Appointment:
    booked = booking.book(slot.id, actor=client or Actor.user(new_id()), as_of=as_of)
    return Appointment.objects.get(pk=booked.id)


def test_a_slot_can_be_booked_at_the_very_instant_of_its_lead_time_and_not_after() -> None:
    last_moment, too_late = (
        SlotFactory.create(start_at=NOON + HOUR),
        SlotFactory.create(start_at=NOON + HOUR - MICROSECOND),
    )

    assert book(last_moment).status == "Pending"
    with pytest.raises(LeadTimePassed):
        book(too_late)


def test_an_unknown_slot_is_not_found() -> None:
    with pytest.raises(NotFound):
        booking.book(new_id(), actor=Actor.user(new_id()), as_of=NOON)


def test_a_client_books_in_any_tenant_and_the_appointment_is_of_the_slots_tenant() -> None:
    slot = SlotFactory.create(tenant_id=OTHER_TENANT)

    appointment = book(slot, client=Actor.user(new_id(), tenant_id=new_id()))

    assert (appointment.tenant_id, appointment.calendar_event.tenant_id) == (OTHER_TENANT, OTHER_TENANT)


def test_the_event_is_as_the_slot_and_names_nobody() -> None:
    slot = SlotFactory.create(time_zone="Asia/Yekaterinburg")

    event = book(slot).calendar_event

    assert (event.start_at, event.end_at, event.time_zone) == (slot.start_at, slot.end_at, "Asia/Yekaterinburg")
    assert (event.title, event.reminder_offsets_minutes) == ("Встреча по записи", [1_440, 60])


def test_the_constraint_alone_keeps_a_slot_to_one_live_appointment() -> None:
    """INV-SLT-3, should a bug or a script have made the slot Available under a live appointment."""
    slot = AppointmentFactory.create(slot__status="Available").slot
    before = state.everything()

    with pytest.raises(SlotTaken):
        book(slot)

    assert state.everything() == before


def test_a_message_that_cannot_be_serialised_rolls_the_whole_booking_back(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = SlotFactory.create()
    before = state.everything()
    monkeypatch.setattr(AppointmentBooked, "to_json", _no_json)

    with pytest.raises(ValueError, match="surrogate"):
        book(slot)

    assert state.everything() == before


def _no_json(_message: Message) -> str:
    raise ValueError("a surrogate can't be encoded")


def test_booked_30_minutes_ahead_reminds_nobody() -> None:
    appointment = book(SlotFactory.create(start_at=NOON + 30 * MINUTE, min_lead_time_minutes=0))

    assert state.reminders_of(appointment.calendar_event) == [(60, "Skipped", "past"), (1_440, "Skipped", "past")]


def test_booked_3_hours_ahead_reminds_an_hour_before() -> None:
    appointment = book(SlotFactory.create(start_at=NOON + 3 * HOUR))

    assert state.reminders_of(appointment.calendar_event) == [(60, "Pending", None), (1_440, "Skipped", "past")]


def test_every_line_of_the_audit_log_says_who_when_and_in_what() -> None:
    client = Actor.user(new_id())

    with correlated() as correlation:
        book(SlotFactory.create(), client=client)

    lines = AuditLine.objects.values_list("actor_kind", "actor_user_id", "occurred_at", "correlation_id")
    assert set(lines) == {("User", client.user_id, NOON, correlation)}


def test_the_slot_of_an_expired_request_is_booked_again_by_the_same_client() -> None:
    expired = an_overdue_appointment()
    TimeoutJob().cycle(as_of=NOON, limit=1, keep_going=lambda: True)

    appointment = book(expired.slot, client=client_of(expired))

    expired.refresh_from_db()
    assert (expired.status, appointment.status) == ("Expired", "Pending")
    assert appointment.slot_id == expired.slot_id
    assert appointment.slot.status == "Booked"


@pytest.mark.django_db(transaction=True)
def test_of_50_parallel_bookings_of_one_slot_one_wins_and_49_are_told_that_it_is_taken() -> None:
    slot = SlotFactory.create()

    outcomes = together(*(partial(booking.book, slot.id, actor=Actor.user(new_id()), as_of=NOON) for _ in range(50)))

    assert [type(outcome) for outcome in outcomes].count(SlotTaken) == 49
    assert Appointment.objects.get().slot_id == slot.id
    assert state.topics() == ["appointment-booked"]


@pytest.mark.django_db(transaction=True)
def test_a_booking_that_meets_the_release_waits_for_its_commit_and_then_has_the_slot() -> None:
    overdue = an_overdue_appointment()
    again = partial(booking.book, overdue.slot_id, actor=Actor.user(new_id()), as_of=NOON)

    with transaction.atomic():
        [case] = locks.claim_overdue(as_of=NOON, after=None, without=(), limit=1).cases
        row = lifecycle.permit(Verb.EXPIRE, case, party=Party.TIMEOUT, as_of=NOON)
        change = lifecycle.plan(row, case, party=Party.TIMEOUT, as_of=NOON)
        lifecycle.write([change], actor=Actor.system(), as_of=NOON)
        finish = blocked(again)

    assert finish().status == "Pending"
    assert sorted(Appointment.objects.values_list("status", flat=True)) == ["Expired", "Pending"]


def test_a_slot_is_taken_until_the_release_is_committed() -> None:
    overdue = an_overdue_appointment(start_at=NOON + 2 * DAY)

    with pytest.raises(SlotTaken) as caught:
        book(overdue.slot)

    assert caught.value.facts["status"] == "Booked"
