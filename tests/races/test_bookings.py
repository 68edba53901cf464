"""Many clients at once: one slot goes to one of them, and the cap of Pending requests holds."""

import threading
from functools import partial

import pytest

from appointments import booking
from appointments.booking import SlotTaken
from appointments.deadlines import TooManyPending
from appointments.models import Appointment
from core.actors import Actor
from core.ids import new_id
from pin_calendar import slots
from pin_calendar.models import CalendarEvent
from tests.appointments import state
from tests.appointments.concurrently import together
from tests.factories import DAY, HOUR, NOON, SlotFactory
from tests.invariants import violations
from tests.races.hands import in_order
from tests.races.scenes import said

pytestmark = pytest.mark.django_db(transaction=True)

CLIENTS = 50
CAP = 5


def test_of_50_parallel_bookings_the_constraint_alone_lets_one_through(monkeypatch):
    """With the lock on the slot bypassed all of them see it Available; then only the database keeps them apart."""
    slot = SlotFactory.create()
    all_have_read = threading.Barrier(CLIENTS)

    def read_without_lock(slot_id):
        seen = slots.read(slot_id)
        all_have_read.wait(timeout=30)
        return seen

    monkeypatch.setattr(slots, "lock", read_without_lock)

    outcomes = together(
        *(partial(booking.book, slot.id, actor=Actor.user(new_id()), as_of=NOON) for _ in range(CLIENTS))
    )

    assert sorted(said(outcome) for outcome in outcomes) == ["Pending"] + ["SlotTaken"] * (CLIENTS - 1)
    assert {outcome.facts["status"] for outcome in outcomes if isinstance(outcome, SlotTaken)} == {"Available"}
    assert (Appointment.objects.count(), CalendarEvent.objects.count()) == (1, 1)
    assert state.topics() == ["appointment-booked"]
    assert violations() == []


def test_twenty_parallel_requests_of_one_client_to_one_owner_stop_at_the_cap():
    owner_id, client = new_id(), Actor.user(new_id())
    starts = [NOON + DAY + number * HOUR for number in range(4 * CAP)]
    offered = [SlotFactory.create(owner_user_id=owner_id, start_at=start_at) for start_at in starts]

    outcomes = together(*(partial(booking.book, slot.id, actor=client, as_of=NOON) for slot in offered))

    assert sorted(said(outcome) for outcome in outcomes) == ["Pending"] * CAP + ["TooManyPending"] * 3 * CAP
    assert violations() == []


def test_a_request_waits_for_one_that_may_fill_the_cap():
    owner_id, client = new_id(), Actor.user(new_id())
    *filling, last, one_more = (
        SlotFactory.create(owner_user_id=owner_id, start_at=NOON + DAY + number * HOUR) for number in range(CAP + 1)
    )
    for slot in filling:
        booking.book(slot.id, actor=client, as_of=NOON)

    first, second = in_order(
        partial(booking.book, last.id, actor=client, as_of=NOON),
        partial(booking.book, one_more.id, actor=client, as_of=NOON),
    )

    assert said(first) == "Pending"
    assert isinstance(second, TooManyPending)
    assert violations() == []
