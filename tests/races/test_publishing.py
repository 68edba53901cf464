"""An owner publishes slots while appointments move to them: their live slots never overlap, and nobody deadlocks."""

from functools import partial

import pytest

from appointments import reassignment
from appointments.models import ReassignmentConflict
from core.actors import Actor
from core.ids import new_id
from pin_calendar import publishing
from pin_calendar.models import AvailabilitySlot
from pin_calendar.publishing import Draft, SlotOverlap
from tests.factories import HOUR, NOON, TENANT, SlotFactory, an_open_appointment, owner_of
from tests.invariants import violations
from tests.races.hands import in_order
from tests.races.scenes import said

pytestmark = pytest.mark.django_db(transaction=True)

SOON, LATER = NOON + 30 * HOUR, NOON + 40 * HOUR


@pytest.fixture
def owner_id():
    """With two requests, the later one written first."""
    owner_id = new_id()
    for start_at in (LATER, SOON):
        an_open_appointment(start_at=start_at, slot__owner_user_id=owner_id)
    return owner_id


def _publish(owner_id, *starts):
    return partial(
        publishing.publish,
        [Draft(start_at, start_at + HOUR, "Europe/Moscow") for start_at in starts],
        owner_user_id=owner_id,
        tenant_id=TENANT,
        actor=Actor.user(owner_id, tenant_id=TENANT),
        as_of=NOON,
    )


def _reassign(from_owner_id, to_owner_id):
    return partial(
        reassignment.reassign,
        tenant_id=TENANT,
        from_owner_id=from_owner_id,
        to_owner_id=to_owner_id,
        actor=Actor.system(),
        as_of=NOON,
    )


def test_what_is_published_first_keeps_the_appointment_with_its_owner(owner_id):
    colleague_id = new_id()

    published, moved = in_order(_publish(colleague_id, SOON), _reassign(owner_id, colleague_id))

    assert said(moved) == "moved 1"
    assert len(moved.conflicting_appointment_ids) == len(published) == ReassignmentConflict.objects.count() == 1
    assert violations() == []


def test_what_was_moved_first_refuses_the_new_slot(owner_id):
    colleague_id = new_id()

    moved, refused = in_order(_reassign(owner_id, colleague_id), _publish(colleague_id, SOON))

    assert said(moved) == "moved 2"
    assert isinstance(refused, SlotOverlap)
    assert violations() == []


@pytest.mark.parametrize("starts", [(SOON, LATER), (LATER, SOON)])
def test_a_reassignment_in_the_middle_of_publishing_waits_for_its_end(owner_id, starts):
    """Neither may hold a time that the other wants while it waits for another: that would be a deadlock."""
    colleague_id = new_id()

    published, moved = in_order(
        _publish(colleague_id, *starts),
        _reassign(owner_id, colleague_id),
        points=("EACH INSERT availability_slots",),
        visit=2,
    )

    assert len(published) == 2
    assert said(moved) == "moved 0"
    assert violations() == []


@pytest.mark.parametrize("starts", [(SOON, LATER), (LATER, SOON)])
def test_two_who_publish_the_same_times_in_any_order_do_not_deadlock(starts):
    owner_id = new_id()

    published, refused = in_order(
        _publish(owner_id, SOON, LATER),
        _publish(owner_id, *starts),
        points=("EACH INSERT availability_slots",),
        visit=2,
    )

    assert len(published) == 2
    assert isinstance(refused, SlotOverlap)
    assert AvailabilitySlot.objects.count() == 2
    assert violations() == []


def test_an_edit_in_the_middle_of_publishing_waits_for_its_end():
    slot = SlotFactory.create(start_at=LATER + 24 * HOUR)
    owner_id = slot.owner_user_id

    published, refused = in_order(
        _publish(owner_id, SOON, LATER),
        partial(publishing.edit, slot.id, actor=owner_of(slot), as_of=NOON, start_at=SOON, end_at=LATER + HOUR),
        points=("EACH INSERT availability_slots",),
        visit=2,
    )

    assert len(published) == 2
    assert isinstance(refused, SlotOverlap)
    assert violations() == []
