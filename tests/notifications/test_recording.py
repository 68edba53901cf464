"""Who is told of which message, each person once."""

import datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from contracts.base import Message
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentConfirmed,
    AppointmentReassigned,
    AppointmentRescheduled,
    CancelReason,
    EventOrigin,
    EventReason,
    EventStatus,
    EventStatusChanged,
    LiveStatus,
    ReminderDue,
    ReminderKind,
)
from core.errors import InvalidField
from core.ids import new_id
from notifications import recording
from notifications.models import Delivery, Recipient
from tests.appointments.concurrently import together
from tests.factories import MINUTE
from tests.notifications.people import AGENT, CLIENT, NOW, OTHER_AGENT, a_person, example, the_usual_people

pytestmark = pytest.mark.django_db


def record(message: Message, *, as_of: datetime.datetime = NOW) -> list[Delivery]:
    return recording.record(message, message_id=new_id(), as_of=as_of)  # type: ignore[arg-type]


def told() -> set[tuple[UUID, str, str, str]]:
    return set(Delivery.objects.values_list("recipient_user_id", "role", "kind", "status"))


BOTH = {(AGENT, "owner"), (CLIENT, "client")}
ONLY_OWNER = {(AGENT, "owner")}
MANUAL = {"origin": EventOrigin.MANUAL, "appointment_id": None, "client_user_id": None}


@pytest.mark.parametrize(
    ("contract", "changes", "kind", "people"),
    [
        (ReminderDue, {}, "AppointmentReminder", BOTH),
        (ReminderDue, {"kind": ReminderKind.CALENDAR_REMINDER}, "CalendarReminder", ONLY_OWNER),
        (AppointmentBooked, {}, "AppointmentBooked", BOTH),
        (AppointmentConfirmed, {}, "AppointmentConfirmed", BOTH),
        (AppointmentRescheduled, {}, "AppointmentRescheduled", BOTH),
        (
            AppointmentReassigned,
            {},
            "AppointmentReassigned",
            {(OTHER_AGENT, "owner"), (AGENT, "previous_owner"), (CLIENT, "client")},
        ),
        (AppointmentCancelled, {"reason": CancelReason.EXPIRED}, "AppointmentExpired", BOTH),
        (AppointmentCancelled, {"reason": CancelReason.DECLINED}, "AppointmentDeclined", BOTH),
        (AppointmentCancelled, {"reason": CancelReason.CANCELLED_BY_CLIENT}, "AppointmentCancelledByClient", BOTH),
        (AppointmentCancelled, {"reason": CancelReason.CANCELLED_BY_OWNER}, "AppointmentCancelledByOwner", BOTH),
        (EventStatusChanged, MANUAL, "EventCancelled", ONLY_OWNER),
        (EventStatusChanged, MANUAL | {"status": EventStatus.COMPLETED}, "EventCompleted", ONLY_OWNER),
        (
            EventStatusChanged,
            MANUAL | {"origin": EventOrigin.CRM_DEADLINE, "client_user_id": CLIENT, "reason": EventReason.CRM},
            "EventCancelled",
            ONLY_OWNER,
        ),
    ],
)
def test_each_person_concerned_is_told(
    contract: type[Message], changes: dict[str, Any], kind: str, people: set[tuple[UUID, str]]
) -> None:
    the_usual_people()

    record(example(contract, **changes))

    assert told() == {(user_id, role, kind, "pending") for user_id, role in people}


@pytest.mark.parametrize(
    "message",
    [
        example(AppointmentBooked, status=LiveStatus.CONFIRMED, pending_expires_at=None),
        example(EventStatusChanged, origin=EventOrigin.APPOINTMENT),
    ],
)
def test_what_another_message_tells_is_not_told_twice(message: Message) -> None:
    the_usual_people()
    record(message)
    assert told() == set()


def test_a_fact_is_told_once_under_whatever_message_id() -> None:
    the_usual_people()
    returned = [record(example(ReminderDue)) for _ in range(3)]
    assert len(told()) == Delivery.objects.count() == 2
    assert [len(deliveries) for deliveries in returned] == [2, 0, 0]


@pytest.mark.django_db(transaction=True)
def test_a_fact_is_told_once_by_two_consumers_at_once() -> None:
    the_usual_people()

    outcomes = together(*[partial(record, example(ReminderDue))] * 4)

    assert sorted(map(len, outcomes)) == [0, 0, 0, 2]
    assert told() == {(user_id, role, "AppointmentReminder", "pending") for user_id, role in BOTH}
    assert Delivery.objects.count() == 2


def test_who_is_agent_and_client_at_a_time_is_told_once_as_the_agent() -> None:
    the_usual_people()
    record(example(ReminderDue, client_user_id=AGENT))
    assert told() == {(AGENT, "owner", "AppointmentReminder", "pending")}


def test_who_can_not_be_reached_is_recorded_and_the_others_are_still_served() -> None:
    a_person(AGENT, "agent@example.test")
    record(example(ReminderDue))
    assert {(user, status) for user, _, _, status in told()} == {(AGENT, "pending"), (CLIENT, "no_channel")}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"is_active": False}, "inactive"),
        ({"email": ""}, "no_channel"),
        ({"channels": []}, "no_channel"),
        ({}, "pending"),
    ],
)
def test_a_person_without_a_way_is_recorded_as_such(fields: dict[str, Any], status: str) -> None:
    the_usual_people()
    Recipient.objects.filter(user_id=CLIENT).update(**fields)
    record(example(ReminderDue))
    assert {(user, found) for user, _, _, found in told()} == {(AGENT, "pending"), (CLIENT, status)}


def test_an_installation_without_mail_records_that_nobody_was_told(settings: Any) -> None:
    settings.NOTIFICATION_CHANNELS = {}
    the_usual_people()
    record(example(ReminderDue))
    assert {status for *_, status in told()} == {"no_channel"}


@pytest.mark.parametrize(("late", "status"), [(120 * MINUTE, "pending"), (121 * MINUTE, "stale")])
def test_a_reminder_read_long_after_its_event_is_recorded_and_not_sent(late: datetime.timedelta, status: str) -> None:
    the_usual_people()
    message = example(ReminderDue)
    record(message, as_of=message.start_at + late)
    assert {found for *_, found in told()} == {status}


def test_what_is_no_reminder_is_never_stale() -> None:
    the_usual_people()
    message = example(AppointmentCancelled)
    record(message, as_of=message.start_at + datetime.timedelta(days=3))
    assert {found for *_, found in told()} == {"pending"}


def test_a_zone_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidField, match="time zone"):
        record(example(ReminderDue, time_zone="Mars/Olympus"))
