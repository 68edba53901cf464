"""Two hands on one appointment, in both orders, each forced: who commits first wins, nothing is lost or doubled.

The first hand stops with its changes written and not committed, the second one then goes as far as it can.
"""

from typing import NamedTuple

import pytest

from appointments.booking import SlotTaken
from appointments.models import Appointment
from reminders.models import EventReminder
from tests.appointments import state
from tests.appointments.concurrently import held_elsewhere
from tests.factories import DAY, HOUR, NOON
from tests.invariants import violations
from tests.races.hands import in_order
from tests.races.scenes import SCENES, dispatch_due, expire_overdue, said
from tests.races.story import Story

pytestmark = pytest.mark.django_db(transaction=True)

EXPIRED, SENT = "expired 1, elsewhere 0", "sent 1, elsewhere 0"
LEFT_ALONE, UNSENT = "expired 0, elsewhere 1", "sent 0, elsewhere 1"


class Order(NamedTuple):
    """What each of two hands says; status and sent reminders are those after one more pass of each worker."""

    scene: str
    first: str
    second: str
    said_first: str
    said_second: str
    status: str
    sent: int


ORDERS = [
    Order("lapsing", "confirm", "timeout", "Confirmed", LEFT_ALONE, "Confirmed", 1),
    Order("lapsing", "timeout", "confirm", EXPIRED, "NotAllowed", "Expired", 0),
    Order("lapsing", "decline", "timeout", "Declined", LEFT_ALONE, "Declined", 0),
    Order("lapsing", "timeout", "decline", EXPIRED, "NotAllowed", "Expired", 0),
    Order("lapsing", "cancel_by_client", "timeout", "Cancelled", LEFT_ALONE, "Cancelled", 0),
    Order("lapsing", "timeout", "cancel_by_client", EXPIRED, "NotAllowed", "Expired", 0),
    Order("lapsing", "cancel_by_owner", "timeout", "Cancelled", LEFT_ALONE, "Cancelled", 0),
    Order("lapsing", "timeout", "cancel_by_owner", EXPIRED, "NotAllowed", "Expired", 0),
    Order("lapsing", "reschedule", "timeout", "Pending", LEFT_ALONE, "Pending", 0),
    Order("lapsing", "timeout", "reschedule", EXPIRED, "NotAllowed", "Expired", 0),
    Order("lapsing", "reassign", "timeout", "moved 1", LEFT_ALONE, "Expired", 0),
    Order("lapsing", "timeout", "reassign", EXPIRED, "moved 0", "Expired", 0),
    Order("lapsing", "edit", "timeout", "Event", LEFT_ALONE, "Expired", 0),
    Order("lapsing", "timeout", "edit", EXPIRED, "EventFinished", "Expired", 0),
    Order("lapsing", "retitle", "timeout", "Event", LEFT_ALONE, "Expired", 0),
    Order("lapsing", "timeout", "retitle", EXPIRED, "EventFinished", "Expired", 0),
    Order("lapsing", "retitle", "dispatch", "Event", UNSENT, "Expired", 0),
    Order("lapsing", "dispatch", "retitle", SENT, "Event", "Expired", 1),
    Order("lapsing", "dispatch", "timeout", SENT, LEFT_ALONE, "Expired", 1),
    Order("lapsing", "timeout", "dispatch", EXPIRED, UNSENT, "Expired", 0),
    Order("lapsing", "timeout", "timeout", EXPIRED, LEFT_ALONE, "Expired", 0),
    Order("lapsing", "dispatch", "dispatch", SENT, UNSENT, "Expired", 1),
    Order("lapsing", "cancel_by_client", "dispatch", "Cancelled", UNSENT, "Cancelled", 0),
    Order("lapsing", "dispatch", "cancel_by_client", SENT, "Cancelled", "Cancelled", 1),
    Order("lapsing", "reschedule", "dispatch", "Pending", UNSENT, "Pending", 0),
    Order("lapsing", "dispatch", "reschedule", SENT, "Pending", "Pending", 1),
    Order("lapsing", "reassign", "dispatch", "moved 1", UNSENT, "Expired", 0),
    Order("lapsing", "dispatch", "reassign", SENT, "moved 1", "Expired", 1),
    Order("lapsing", "confirm", "dispatch", "Confirmed", UNSENT, "Confirmed", 1),
    Order("lapsing", "dispatch", "confirm", SENT, "Confirmed", "Confirmed", 1),
    Order("lapsing", "edit", "dispatch", "Event", UNSENT, "Expired", 0),
    Order("lapsing", "dispatch", "edit", SENT, "Event", "Expired", 1),
    Order("lapsing", "reassign", "confirm", "moved 1", "NotFound", "Expired", 0),
    Order("lapsing", "confirm", "reassign", "Confirmed", "moved 1", "Confirmed", 1),
    Order("lapsing", "reassign", "decline", "moved 1", "NotFound", "Expired", 0),
    Order("lapsing", "decline", "reassign", "Declined", "moved 0", "Declined", 0),
    Order("lapsing", "reassign", "cancel_by_owner", "moved 1", "NotFound", "Expired", 0),
    Order("lapsing", "cancel_by_owner", "reassign", "Cancelled", "moved 0", "Cancelled", 0),
    Order("lapsing", "reassign", "cancel_by_client", "moved 1", "Cancelled", "Cancelled", 0),
    Order("lapsing", "cancel_by_client", "reassign", "Cancelled", "moved 0", "Cancelled", 0),
    Order("lapsing", "reassign", "reschedule", "moved 1", "Busy", "Expired", 0),
    Order("lapsing", "reschedule", "reassign", "Pending", "moved 1", "Pending", 0),
    Order("lapsing", "reassign", "edit", "moved 1", "NotFound", "Expired", 0),
    Order("lapsing", "edit", "reassign", "Event", "moved 1", "Expired", 0),
    Order("lapsing", "reassign", "retitle", "moved 1", "NotFound", "Expired", 0),
    Order("lapsing", "retitle", "reassign", "Event", "moved 1", "Expired", 0),
    Order("lapsing", "reassign", "reassign", "moved 1", "moved 0", "Expired", 0),
    Order("tomorrow", "timeout", "book", EXPIRED, "Pending", "Expired", 0),
    Order("in progress", "complete", "dispatch", "Completed", UNSENT, "Completed", 0),
    Order("in progress", "dispatch", "complete", SENT, "Completed", "Completed", 1),
    Order("in progress", "complete", "reassign", "Completed", "moved 0", "Completed", 0),
    Order("in progress", "reassign", "complete", "moved 1", "NotFound", "Confirmed", 1),
    Order("in progress", "no_show", "reassign", "NoShow", "moved 0", "NoShow", 0),
    Order("in progress", "reassign", "no_show", "moved 1", "NotFound", "Confirmed", 1),
    Order("in progress", "reassign", "dispatch", "moved 1", UNSENT, "Confirmed", 1),
    Order("in progress", "dispatch", "reassign", SENT, "moved 1", "Confirmed", 1),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: f"{order.scene}: {order.first} then {order.second}")
def test_whoever_commits_first_wins(order):
    stage = SCENES[order.scene]()
    story = Story()

    outcomes = in_order(getattr(stage, order.first), getattr(stage, order.second))

    assert [said(outcome) for outcome in outcomes] == [order.said_first, order.said_second]
    expire_overdue()
    dispatch_due()
    assert stage.status == order.status
    sent = EventReminder.objects.filter(status="Sent").count()
    assert (sent, state.topics().count("reminder-due")) == (order.sent, order.sent)
    assert story.lies() == []
    assert violations() == []


@pytest.mark.parametrize("acts", [("book_further", "reassign"), ("reassign", "book_further")], ids=" then ".join)
def test_a_request_beside_a_reassignment_stays_with_the_owner_of_its_slot(acts):
    scene = SCENES["lapsing"]()
    owner_id = scene.appointment.owner_user_id
    story = Story()

    outcomes = in_order(*[getattr(scene, act) for act in acts])

    assert {said(outcome) for outcome in outcomes} == {"Pending", "moved 1"}
    request, moved = Appointment.objects.get(slot_id=scene.further_slot_id), scene.appointment
    moved.refresh_from_db()
    assert (request.owner_user_id, moved.owner_user_id) == (owner_id, scene.colleague_id)
    assert story.lies() == []
    assert violations() == []


def test_a_request_whose_slot_is_in_a_booking_hand_is_left_to_the_next_cycle():
    """Booking races the release: the worker does not wait for a hand on the slot, the client hears that it is taken."""
    scene = SCENES["tomorrow"]()

    with held_elsewhere("SELECT 1 FROM availability_slots WHERE id = %s FOR NO KEY UPDATE", scene.appointment.slot_id):
        assert said(scene.timeout()) == LEFT_ALONE
    with pytest.raises(SlotTaken):
        scene.book()
    assert said(scene.timeout()) == EXPIRED
    assert said(scene.book()) == "Pending"
    assert violations() == []


def test_a_reminder_that_a_move_has_deleted_is_never_sent():
    scene = SCENES["lapsing"]()
    [due] = EventReminder.objects.filter(status="Pending").values_list("id", flat=True)

    in_order(scene.reschedule, scene.dispatch)
    dispatch_due()

    assert not EventReminder.objects.filter(pk=due).exists()
    assert "reminder-due" not in state.topics()
    pending = EventReminder.objects.filter(status="Pending").order_by("due_at")
    assert list(pending.values_list("due_at", flat=True)) == [NOON + DAY, NOON + 2 * DAY - HOUR]
    assert violations() == []
