"""What an appointment's messages say, field by field: the ids, times and states of the transition that they tell."""

import datetime
from typing import Any

import pytest

from appointments import booking, decisions, rescheduling
from appointments.matrix import Verb
from appointments.models import Appointment
from core.actors import Actor
from core.ids import new_id
from tests.appointments import state
from tests.factories import DAY, HOUR, NOON, OTHER_TENANT, SlotFactory, an_open_appointment, client_of, owner_of

pytestmark = pytest.mark.django_db

START = NOON + 3 * DAY
OTHER_START = NOON + 4 * DAY


def instant(value: datetime.datetime) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S.%f}Z"


def common(appointment: Appointment, *, as_of: datetime.datetime, version: int = 2) -> dict[str, Any]:
    """What every message of an appointment says, of an appointment of another tenant than the factories'."""
    return {
        "contractVersion": 1,
        "tenantId": str(OTHER_TENANT),
        "occurredAt": instant(as_of),
        "aggregateVersion": version,
        "appointmentId": str(appointment.id),
        "eventId": str(appointment.calendar_event_id),
        "ownerUserId": str(appointment.owner_user_id),
        "clientUserId": str(appointment.client_user_id),
    }


def told() -> dict[str, dict[str, Any]]:
    """The messages by topic."""
    return dict(state.told())


def an_appointment(**fields: Any) -> Appointment:
    slot = {"slot__tenant_id": OTHER_TENANT, "slot__time_zone": "Europe/Riga", "calendar_event__time_zone": "Asia/Omsk"}
    return an_open_appointment(**slot, start_at=START, **fields)


def test_a_booking_on_an_auto_confirm_slot_tells_both_that_it_is_booked_and_that_it_is_confirmed() -> None:
    slot = SlotFactory.create(tenant_id=OTHER_TENANT, start_at=START, time_zone="Europe/Riga", auto_confirm=True)

    booked = booking.book(slot.id, actor=Actor.user(new_id()), as_of=NOON)

    appointment = Appointment.objects.get(pk=booked.id)
    said = common(appointment, as_of=NOON, version=1) | {
        "slotId": str(slot.id),
        "startAt": instant(START),
        "endAt": instant(START + HOUR),
        "timeZone": "Europe/Riga",
    }
    assert told() == {"appointment-booked": said | {"status": "Confirmed"}, "appointment-confirmed": said}


def test_a_booking_that_waits_for_the_owner_tells_until_when() -> None:
    slot = SlotFactory.create(tenant_id=OTHER_TENANT, start_at=START, time_zone="Europe/Riga")

    booked = booking.book(slot.id, actor=Actor.user(new_id()), as_of=NOON)

    appointment = Appointment.objects.get(pk=booked.id)
    assert told() == {
        "appointment-booked": common(appointment, as_of=NOON, version=1)
        | {
            "slotId": str(slot.id),
            "startAt": instant(START),
            "endAt": instant(START + HOUR),
            "timeZone": "Europe/Riga",
            "status": "Pending",
            "pendingExpiresAt": instant(NOON + DAY),
        }
    }


def test_a_move_tells_the_new_slot_and_the_former_one_and_a_confirmation_the_new_one() -> None:
    appointment = an_appointment()
    to_slot = SlotFactory.create(
        tenant_id=OTHER_TENANT,
        owner_user_id=appointment.owner_user_id,
        start_at=OTHER_START,
        end_at=OTHER_START + 2 * HOUR,
        time_zone="Asia/Tbilisi",
        auto_confirm=True,
    )

    rescheduling.reschedule(appointment.id, to_slot.id, actor=client_of(appointment), as_of=NOON)

    said = common(appointment, as_of=NOON) | {
        "slotId": str(to_slot.id),
        "startAt": instant(OTHER_START),
        "endAt": instant(OTHER_START + 2 * HOUR),
        "timeZone": "Asia/Tbilisi",
    }
    former = {"previousSlotId": str(appointment.slot_id), "previousStartAt": instant(START)}
    assert told() == {
        "appointment-rescheduled": said | former | {"status": "Confirmed"},
        "appointment-confirmed": said,
    }


@pytest.mark.parametrize(("as_of", "slot_outcome"), [(START - HOUR, "Released"), (START - HOUR + HOUR / 60, "Expired")])
def test_an_end_tells_the_slot_that_was_held_and_what_became_of_it_and_the_event_tells_its_own(
    as_of: datetime.datetime, slot_outcome: str
) -> None:
    appointment = an_appointment(status="Confirmed")

    decisions.change(appointment.id, Verb.CANCEL, actor=client_of(appointment), as_of=as_of)

    said = common(appointment, as_of=as_of) | {"startAt": instant(START), "reason": "CancelledByClient"}
    assert told() == {
        "appointment-cancelled": said
        | {"slotId": str(appointment.slot_id), "timeZone": "Europe/Riga", "slotOutcome": slot_outcome},
        "event-status-changed": said
        | {"origin": "Appointment", "previousStatus": "Scheduled", "status": "Cancelled", "timeZone": "Asia/Omsk"},
    }


@pytest.mark.parametrize(("verb", "outcome"), [(Verb.COMPLETE, "Completed"), (Verb.NO_SHOW, "NoShow")])
def test_an_appointment_that_is_over_tells_how_it_went(verb: Verb, outcome: str) -> None:
    appointment = an_appointment(status="Confirmed")

    decisions.change(appointment.id, verb, actor=owner_of(appointment), as_of=START + HOUR)

    assert told()["appointment-completed"] == common(appointment, as_of=START + HOUR) | {"outcome": outcome}
