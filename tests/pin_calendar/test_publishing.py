"""What an owner does with slots, beside what the API's tests show."""

import pytest

from pin_calendar import publishing
from tests.appointments import state
from tests.factories import NOON, SlotFactory, owner_of

pytestmark = pytest.mark.django_db


def test_an_edit_that_changes_nothing_leaves_the_slot_its_version_and_no_line():
    slot = SlotFactory.create()
    before = state.everything()

    edited = publishing.edit(
        slot.id, actor=owner_of(slot), as_of=NOON, start_at=slot.start_at, min_lead_time_minutes=60
    )

    assert edited.version == slot.version
    assert state.everything() == before
