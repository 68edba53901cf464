"""What an owner does with slots, beside what the API's tests show."""

import datetime
import zoneinfo

import pytest

from core.actors import Actor
from core.errors import InvalidField
from core.ids import new_id
from pin_calendar import publishing
from pin_calendar.publishing import Draft
from tests.appointments import state
from tests.factories import DAY, HOUR, NOON, TENANT, SlotFactory, owner_of

pytestmark = pytest.mark.django_db

OWNER = new_id()
ACTOR = Actor.user(OWNER, tenant_id=TENANT)


def test_an_edit_that_changes_nothing_leaves_the_slot_its_version_and_no_line():
    slot = SlotFactory.create()
    before = state.everything()

    edited = publishing.edit(
        slot.id, actor=owner_of(slot), as_of=NOON, start_at=slot.start_at, min_lead_time_minutes=60
    )

    assert edited.version == slot.version
    assert state.everything() == before


BEYOND = datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(-2 * HOUR))


@pytest.mark.parametrize(
    ("field", "draft"),
    [
        ("start_at", Draft(start_at=BEYOND, end_at=NOON + DAY, time_zone="Europe/Riga")),
        ("end_at", Draft(start_at=NOON + DAY, end_at=BEYOND, time_zone="Europe/Riga")),
    ],
)
def test_times_that_are_a_slip_are_refused_with_the_field_named(field: str, draft: Draft):

    with pytest.raises(InvalidField) as caught:
        publishing.publish([draft], owner_user_id=OWNER, tenant_id=TENANT, actor=ACTOR, as_of=NOON)

    assert caught.value.field == field


def test_a_slot_is_the_same_instants_whatever_zone_its_owner_wrote_them_in():
    riga = zoneinfo.ZoneInfo("Europe/Riga")
    draft = Draft(start_at=(NOON + DAY).astimezone(riga), end_at=NOON + DAY + HOUR, time_zone="Europe/Riga")

    [slot] = publishing.publish([draft], owner_user_id=OWNER, tenant_id=TENANT, actor=ACTOR, as_of=NOON)

    assert (slot.start_at, slot.start_at.utcoffset()) == (NOON + DAY, 0 * HOUR)
