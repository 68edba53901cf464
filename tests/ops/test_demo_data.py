"""`manage.py seed_demo`: believable, the same again, never in production."""

import datetime
import io
from collections import Counter
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from appointments.models import Appointment
from audit.models import AuditLine
from ops import demo_data, proof
from outbox.models import OutboxMessage
from pin_calendar.models import AvailabilitySlot
from tests.factories import NOON

pytestmark = pytest.mark.django_db


def test_there_are_requests_in_many_states():
    seeded = demo_data.seed(NOON)

    assert seeded.is_new
    assert Counter(Appointment.objects.values_list("status", flat=True)) == {
        "Pending": 3,
        "Confirmed": 2,
        "Declined": 1,
        "Cancelled": 1,
        "Completed": 1,
        "NoShow": 1,
    }
    assert set(seeded.appointment_ids) == set(Appointment.objects.values_list("id", flat=True))


def test_slots_reach_over_two_weeks_in_the_zones_of_their_owners():
    seeded = demo_data.seed(NOON)

    slots = AvailabilitySlot.objects.filter(id__in=seeded.slot_ids)
    assert len(slots) == 4 * 16 * 3
    assert {slot.time_zone for slot in slots} == {"Europe/Moscow", "Asia/Yekaterinburg"}
    assert {slot.start_at.astimezone(ZoneInfo(slot.time_zone)).hour for slot in slots} == {10, 12, 16}
    assert max(slot.start_at for slot in slots) > NOON + datetime.timedelta(days=12)
    assert {slot.auto_confirm for slot in slots} == {True, False}
    assert {slot.tenant_id for slot in slots} == {demo_data.AGENCY, settings.ENV.pin_platform_tenant_id}


@pytest.mark.parametrize("hour", range(24))
def test_it_obeys_the_invariants_at_any_hour_of_the_day(hour):
    as_of = NOON.replace(hour=hour)

    demo_data.seed(as_of)

    assert [finding.invariant.name for finding in proof.check(as_of=as_of) if finding.violation_count] == []


def test_a_second_run_adds_nothing_and_says_so():
    first, again = io.StringIO(), io.StringIO()
    call_command("seed_demo", stdout=first)
    seen = [list(model.objects.order_by("pk").values_list()) for model in (Appointment, AuditLine, OutboxMessage)]

    call_command("seed_demo", stdout=again)

    assert first.getvalue() == "Added 192 slots and 9 appointments.\n"
    assert again.getvalue() == "Nothing added: 192 slots and 9 appointments are there already.\n"
    assert seen == [
        list(model.objects.order_by("pk").values_list()) for model in (Appointment, AuditLine, OutboxMessage)
    ]


def test_a_later_run_adds_nothing_either():
    demo_data.seed(NOON)

    assert not demo_data.seed(NOON + datetime.timedelta(days=9)).is_new


def test_production_refuses_it(settings):
    settings.ENV = settings.ENV.model_copy(update={"pin_environment": "production"})

    with pytest.raises(CommandError, match="not for production"):
        call_command("seed_demo")

    assert not AvailabilitySlot.objects.exists()
