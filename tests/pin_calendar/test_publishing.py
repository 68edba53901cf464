"""What an owner does with slots, beside what the API's tests show."""

import datetime
import zoneinfo
from typing import Any

import pytest

from core import sql
from core.actors import Actor
from core.errors import InvalidField
from core.ids import new_id
from pin_calendar import publishing
from pin_calendar.publishing import Draft, SlotOverlap
from tests.appointments import state
from tests.factories import DAY, HOUR, MINUTE, NOON, OTHER_TENANT, TENANT, SlotFactory, owner_of

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


def test_a_zone_that_has_been_renamed_since_is_no_change_of_an_edit():
    slot = SlotFactory.create()
    sql.execute("UPDATE availability_slots SET time_zone = 'Europe/Kiev'")
    edits: dict[str, Any] = {"auto_confirm": slot.auto_confirm, "time_zone": "Europe/Kiev"}

    same = publishing.edit(slot.id, actor=owner_of(slot), as_of=NOON, **edits)
    other = publishing.edit(slot.id, actor=owner_of(slot), as_of=NOON, auto_confirm=not slot.auto_confirm)

    assert (same.version, same.time_zone) == (1, "Europe/Kiev")
    assert (other.version, other.time_zone) == (2, "Europe/Kiev")


def test_every_slot_that_overlaps_an_earlier_one_of_the_same_call_is_listed():
    minutes = [(0, 180), (30, 60), (180, 200), (120, 150), (190, 210)]
    start = NOON + DAY
    drafts = [Draft(start + a * MINUTE, start + b * MINUTE, "Europe/Riga") for a, b in minutes]

    with pytest.raises(SlotOverlap) as refused:
        publishing.publish(drafts, owner_user_id=OWNER, tenant_id=TENANT, actor=ACTOR, as_of=NOON)

    conflicts: Any = refused.value.facts["conflicts"]
    assert [conflict["start_at"] for conflict in conflicts] == [start + minute * MINUTE for minute in (30, 120, 190)]
    assert str(refused.value).startswith("3 slots overlap others given with them, 0 live slots of owner")


def test_slots_that_the_owner_has_in_another_tenant_stand_in_the_way_and_are_not_told():
    elsewhere = SlotFactory.create(owner_user_id=OWNER, tenant_id=OTHER_TENANT)
    draft = Draft(elsewhere.start_at, elsewhere.end_at, "Europe/Riga")

    with pytest.raises(SlotOverlap) as refused:
        publishing.publish([draft], owner_user_id=OWNER, tenant_id=TENANT, actor=ACTOR, as_of=NOON)

    assert refused.value.facts["conflicts"] == []


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
