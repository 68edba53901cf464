"""When a request lapses, and how many one client may have open with one owner."""

import datetime
from functools import partial
from uuid import UUID

import pytest
from pytest_django import Settings

from appointments import booking, decisions, rescheduling
from appointments.deadlines import DeadlineTooNear, TooManyPending
from appointments.matrix import Verb
from appointments.models import Appointment
from core.actors import Actor
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot
from tests.appointments import state
from tests.appointments.concurrently import together
from tests.factories import DAY, HOUR, MICROSECOND, MINUTE, NOON, SlotFactory, client_of, owner_of

pytestmark = pytest.mark.django_db

OWNER, CLIENT = new_id(), Actor.user(new_id())


def slots(count: int, *, owner: UUID = OWNER, **fields: object) -> list[AvailabilitySlot]:
    """Of one owner, a day apart."""
    return [SlotFactory.create(owner_user_id=owner, start_at=NOON + (2 + n) * DAY, **fields) for n in range(count)]


def book(slot: AvailabilitySlot, *, client: Actor = CLIENT, as_of: datetime.datetime = NOON) -> Appointment:
    return Appointment.objects.get(pk=booking.book(slot.id, actor=client, as_of=as_of).id)


@pytest.mark.parametrize(
    ("start_at", "lead", "deadline"),
    [
        (NOON + 10 * DAY, 60, NOON + DAY),
        (NOON + DAY + HOUR, 60, NOON + DAY),
        (NOON + DAY + HOUR - MICROSECOND, 60, NOON + DAY - MICROSECOND),
        (NOON + 5 * HOUR, 60, NOON + 4 * HOUR),
        (NOON + 5 * HOUR, 0, NOON + 5 * HOUR),
        (NOON + 5 * HOUR, 300, NOON),
    ],
)
def test_the_deadline_is_a_day_after_the_request_but_no_later_than_the_slot_can_be_booked(
    start_at: datetime.datetime, lead: int, deadline: datetime.datetime
) -> None:
    appointment = book(SlotFactory.create(start_at=start_at, min_lead_time_minutes=lead))

    assert appointment.pending_expires_at == deadline


def test_a_day_is_24_hours_also_where_the_clocks_change() -> None:
    before_spring = datetime.datetime(2030, 3, 30, 12, tzinfo=datetime.UTC)

    appointment = book(
        SlotFactory.create(start_at=before_spring + 9 * DAY, time_zone="Europe/Riga"), as_of=before_spring
    )

    assert appointment.pending_expires_at == before_spring + 24 * HOUR


def test_the_deadline_is_one_value_in_the_row_and_in_the_message_to_the_microsecond() -> None:
    as_of = NOON + datetime.timedelta(microseconds=123_457)

    appointment = book(SlotFactory.create(start_at=NOON + 5 * DAY), as_of=as_of)

    [(_, payload)] = state.told()
    assert appointment.pending_expires_at == as_of + DAY
    assert payload["pendingExpiresAt"] == "2030-03-15T12:00:00.123457Z"


def test_a_request_that_leaves_less_than_the_time_to_decide_is_refused(settings: Settings) -> None:
    settings.ENV = settings.ENV.model_copy(update={"appointment_min_decision_minutes": 30})
    just_enough = SlotFactory.create(start_at=NOON + 90 * MINUTE)
    too_near = SlotFactory.create(start_at=NOON + 90 * MINUTE - MICROSECOND)

    book(just_enough)
    before = state.everything()
    with pytest.raises(DeadlineTooNear) as caught:
        book(too_near)

    assert caught.value.code == "deadline_too_near"
    assert state.everything() == before


def test_the_time_to_decide_is_no_matter_for_an_auto_confirm_slot(settings: Settings) -> None:
    settings.ENV = settings.ENV.model_copy(update={"appointment_min_decision_minutes": 30})

    assert book(SlotFactory.create(start_at=NOON + HOUR, auto_confirm=True)).status == "Confirmed"


def test_the_sixth_pending_request_of_one_client_to_one_owner_is_refused() -> None:
    *first, sixth = slots(6)
    for slot in first:
        book(slot)

    before = state.everything()
    with pytest.raises(TooManyPending) as caught:
        book(sixth)

    assert (caught.value.code, caught.value.facts["limit"]) == ("too_many_pending", 5)
    assert state.everything() == before


def test_the_cap_counts_neither_other_clients_nor_other_owners_nor_what_is_decided() -> None:
    *first, sixth, seventh = slots(7)
    [of_another_owner] = slots(1, owner=new_id())
    booked = [book(slot) for slot in first]

    book(sixth, client=Actor.user(new_id()))
    book(of_another_owner)
    decisions.change(booked[0].id, Verb.CONFIRM, actor=owner_of(booked[0]), as_of=NOON)

    assert book(seventh).status == "Pending"


def test_an_auto_confirmed_appointment_is_under_no_cap() -> None:
    *first, sixth = slots(6)
    for slot in first:
        book(slot)
    AvailabilitySlot.objects.filter(pk=sixth.pk).update(auto_confirm=True)

    assert book(sixth).status == "Confirmed"


def test_a_confirmed_one_that_the_client_moves_back_to_pending_counts() -> None:
    first, *others, free = slots(7)
    confirmed = book(first)
    decisions.change(confirmed.id, Verb.CONFIRM, actor=owner_of(confirmed), as_of=NOON)
    for slot in others:
        book(slot)

    before = state.everything()
    with pytest.raises(TooManyPending):
        rescheduling.reschedule(confirmed.id, free.id, actor=client_of(confirmed), as_of=NOON)

    assert state.everything() == before


def test_a_pending_one_that_is_moved_counts_no_second_time() -> None:
    *first, free = slots(6)
    appointment, *_ = [book(slot) for slot in first]

    moved = rescheduling.reschedule(appointment.id, free.id, actor=client_of(appointment), as_of=NOON)

    assert moved.after.status == "Pending"


@pytest.mark.django_db(transaction=True)
def test_the_cap_holds_under_parallel_requests() -> None:
    requests = [partial(booking.book, slot.id, actor=CLIENT, as_of=NOON) for slot in slots(12)]

    outcomes = together(*requests)

    assert sum(isinstance(outcome, TooManyPending) for outcome in outcomes) == 7
    assert Appointment.objects.filter(status="Pending").count() == 5
