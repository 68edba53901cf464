"""What people read: in their language, in the event's own zone, with the calendar file that belongs to it."""

import datetime
import itertools
import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from icalendar import Calendar

from contracts.base import Message
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentConfirmed,
    AppointmentReassigned,
    AppointmentRescheduled,
    CancelReason,
    EventOrigin,
    EventStatus,
    EventStatusChanged,
    LiveStatus,
    ReminderDue,
    ReminderKind,
)
from core.ids import new_id
from notifications import recording, wording
from notifications.channels import Letter
from notifications.models import Delivery, Kind, Locale, Recipient, Role
from notifications.rendering import render
from tests.factories import DAY, HOUR, SlotFactory
from tests.notifications.people import AGENT, NOW, OTHER_AGENT, example, the_usual_people

pytestmark = pytest.mark.django_db


def letters(message: Message, *, locale: str = "ru", as_of: datetime.datetime = NOW) -> dict[str, Letter]:
    """The letter that each role gets of the message."""
    Recipient.objects.update(locale=locale)
    recording.record(message, message_id=new_id(), as_of=as_of)  # type: ignore[arg-type]
    return {
        delivery.role: render(delivery, to=Recipient.objects.get(pk=delivery.recipient_user_id), as_of=as_of)
        for delivery in Delivery.objects.filter(fact=message.dedup_key)
    }


def at(text: str, zone: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC)


@pytest.mark.parametrize(
    ("local", "zone", "ru", "en"),
    [
        (
            "2026-03-28T10:00",
            "Europe/Riga",
            "суббота, 28 марта 2026 г., 10:00 (Europe/Riga, UTC+02:00)",
            "Saturday, 28 March 2026, 10:00 (Europe/Riga, UTC+02:00)",
        ),
        (
            "2026-03-29T10:00",
            "Europe/Riga",
            "воскресенье, 29 марта 2026 г., 10:00 (Europe/Riga, UTC+03:00)",
            "Sunday, 29 March 2026, 10:00 (Europe/Riga, UTC+03:00)",
        ),
        (
            "2026-10-25T10:00",
            "Europe/Riga",
            "воскресенье, 25 октября 2026 г., 10:00 (Europe/Riga, UTC+02:00)",
            "Sunday, 25 October 2026, 10:00 (Europe/Riga, UTC+02:00)",
        ),
        (
            "2026-05-09T00:30",
            "Asia/Kolkata",
            "суббота, 9 мая 2026 г., 00:30 (Asia/Kolkata, UTC+05:30)",
            "Saturday, 9 May 2026, 00:30 (Asia/Kolkata, UTC+05:30)",
        ),
        (
            "2026-01-01T09:00",
            "America/New_York",
            "четверг, 1 января 2026 г., 09:00 (America/New_York, UTC-05:00)",
            "Thursday, 1 January 2026, 09:00 (America/New_York, UTC-05:00)",
        ),
    ],
)
def test_a_time_is_the_events_own_with_its_zone_and_that_days_offset(local: str, zone: str, ru: str, en: str) -> None:
    instant = at(local, zone)
    assert wording.when(instant, zone=zone, locale="ru") == ru
    assert wording.when(instant, zone=zone, locale="en") == en


def test_the_two_sides_of_an_ambiguous_hour_are_told_apart() -> None:
    first = datetime.datetime(2026, 10, 25, 0, 30, tzinfo=datetime.UTC)
    assert "03:30 (Europe/Riga, UTC+03:00)" in wording.when(first, zone="Europe/Riga", locale="en")
    assert "03:30 (Europe/Riga, UTC+02:00)" in wording.when(first + HOUR, zone="Europe/Riga", locale="en")


MESSAGES: dict[str, Message] = {
    Kind.APPOINTMENT_REMINDER: example(ReminderDue),
    Kind.CALENDAR_REMINDER: example(ReminderDue, kind=ReminderKind.CALENDAR_REMINDER),
    Kind.APPOINTMENT_BOOKED: example(AppointmentBooked),
    Kind.APPOINTMENT_CONFIRMED: example(AppointmentConfirmed),
    Kind.APPOINTMENT_RESCHEDULED: example(AppointmentRescheduled),
    Kind.APPOINTMENT_REASSIGNED: example(AppointmentReassigned),
    Kind.APPOINTMENT_EXPIRED: example(AppointmentCancelled, reason=CancelReason.EXPIRED),
    Kind.APPOINTMENT_DECLINED: example(AppointmentCancelled, reason=CancelReason.DECLINED),
    Kind.APPOINTMENT_CANCELLED_BY_CLIENT: example(AppointmentCancelled, reason=CancelReason.CANCELLED_BY_CLIENT),
    Kind.APPOINTMENT_CANCELLED_BY_OWNER: example(AppointmentCancelled, reason=CancelReason.CANCELLED_BY_OWNER),
    Kind.EVENT_CANCELLED: example(EventStatusChanged, origin=EventOrigin.MANUAL, appointment_id=None),
    Kind.EVENT_COMPLETED: example(
        EventStatusChanged, origin=EventOrigin.MANUAL, appointment_id=None, status=EventStatus.COMPLETED
    ),
}


@pytest.mark.parametrize(("kind", "locale"), list(itertools.product(Kind.values, Locale.values)))
def test_every_text_says_when_in_the_language_of_its_reader(kind: str, locale: str) -> None:
    the_usual_people()
    message: Any = MESSAGES[kind]
    when = wording.when(message.start_at, zone=message.time_zone, locale=locale)

    for letter in letters(message, locale=locale).values():
        for text in (letter.text, letter.html):
            assert when in text
            assert letter.subject in text
            assert not {"{", "}", "None"} & {*text, *text.split()}
            assert f"({message.time_zone}, UTC" in text
        is_russian = any("а" <= letter_ <= "я" for letter_ in letter.text.lower())
        assert is_russian is (locale == "ru")
        assert wording.short(message.start_at, zone=message.time_zone, locale=locale) in letter.subject
        assert "\n" not in letter.subject


def test_the_roles_read_different_texts() -> None:
    the_usual_people()
    told = letters(example(AppointmentReassigned))
    assert len({letter.text for letter in told.values()}) == 3


def test_a_lapse_offers_the_client_the_showcase_and_the_agents_next_free_slots(settings: Any) -> None:
    settings.ENV = settings.ENV.model_copy(update={"showcase_url": "https://pin.example/slots?city=riga"})
    the_usual_people()
    later = [
        SlotFactory.create(owner_user_id=AGENT, start_at=NOW + n * DAY, time_zone="Europe/Riga") for n in (2, 1, 4, 3)
    ]
    SlotFactory.create(owner_user_id=OTHER_AGENT, start_at=NOW + DAY)

    told = letters(example(AppointmentCancelled, reason=CancelReason.EXPIRED))

    client, owner = told[Role.CLIENT], told[Role.OWNER]
    for text in (client.text, client.html):
        assert "Агент не подтвердил запись, выберите другой слот." in text
        assert f"https://pin.example/slots?city=riga&ownerId={AGENT}" in text.replace("&amp;", "&")
    offered = [line.removeprefix("- ") for line in client.text.splitlines() if line.startswith("- ")]
    first_three = sorted(slot.start_at for slot in later)[:3]
    assert offered == [wording.when(start_at, zone="Europe/Riga", locale="ru") for start_at in first_three]
    assert "истекла" in owner.text
    assert "https://" not in owner.text


def test_a_free_slot_in_a_zone_that_nobody_knows_is_not_offered_and_the_others_are() -> None:
    the_usual_people()
    for n, zone in enumerate(["Mars/Olympus", "Europe/Riga"], start=1):
        SlotFactory.create(owner_user_id=AGENT, start_at=NOW + n * DAY, time_zone=zone)

    told = letters(example(AppointmentCancelled, reason=CancelReason.EXPIRED))

    offered = [line for line in told[Role.CLIENT].text.splitlines() if line.startswith("- ")]
    assert offered == [f"- {wording.when(NOW + 2 * DAY, zone='Europe/Riga', locale='ru')}"]


def test_a_reminder_of_a_pending_appointment_does_not_say_that_it_is_confirmed() -> None:
    the_usual_people()
    for locale in Locale.values:
        for letter in letters(example(ReminderDue, reminder_id=new_id()), locale=locale).values():
            assert "подтвержд" not in letter.text.lower()
            assert "confirm" not in letter.text.lower()


def invitation(letter: Letter) -> tuple[str, Any]:
    """Method and event of the letter's calendar file."""
    assert letter.calendar is not None
    calendar: Any = Calendar.from_ical(letter.calendar.text)
    assert calendar["METHOD"] == letter.calendar.method
    [event] = calendar.walk("VEVENT")
    return letter.calendar.method, event


def test_the_calendar_file_follows_the_life_of_the_appointment() -> None:
    the_usual_people()
    booked, cancelled = example(AppointmentBooked), example(AppointmentCancelled, aggregate_version=5)
    life = [
        booked,
        example(AppointmentConfirmed, aggregate_version=2),
        example(AppointmentRescheduled, aggregate_version=3),
        example(AppointmentRescheduled, aggregate_version=4, status=LiveStatus.PENDING),
        cancelled,
    ]

    seen = [invitation(letters(message)[Role.CLIENT]) for message in life]

    assert [method for method, _ in seen] == ["REQUEST"] * 4 + ["CANCEL"]
    assert [str(event["STATUS"]) for _, event in seen] == [
        "TENTATIVE",
        "CONFIRMED",
        "CONFIRMED",
        "TENTATIVE",
        "CANCELLED",
    ]
    assert len({str(event["UID"]) for _, event in seen}) == 1
    assert [event["SEQUENCE"] for _, event in seen] == [1, 2, 3, 4, 5]
    for message, (_, event) in zip(life, seen, strict=True):
        assert event.decoded("DTSTART") == message.start_at
    assert [event.decoded("DTEND") for _, event in seen[:4]] == [message.end_at for message in life[:4]]
    assert {str(event["ATTENDEE"]) for _, event in seen} == {"mailto:client@example.test"}


def test_a_reassignment_takes_it_from_the_one_agents_calendar_and_puts_it_into_the_others() -> None:
    the_usual_people()
    moved = example(AppointmentRescheduled, aggregate_version=3)
    letters(moved)

    told = letters(example(AppointmentReassigned, start_at=moved.start_at))

    method, event = invitation(told[Role.PREVIOUS_OWNER])
    assert (method, str(event["STATUS"])) == ("CANCEL", "CANCELLED")
    for role in (Role.OWNER, Role.CLIENT):
        method, event = invitation(told[role])
        assert (method, str(event["STATUS"]), event.decoded("DTEND")) == ("REQUEST", "CONFIRMED", moved.end_at)


def test_a_reassignment_of_which_nothing_is_known_puts_nothing_into_a_calendar() -> None:
    the_usual_people()
    told = letters(example(AppointmentReassigned))
    assert told[Role.OWNER].calendar is None
    assert told[Role.CLIENT].calendar is None


def test_a_reminder_has_no_calendar_file() -> None:
    the_usual_people()
    assert {letter.calendar for letter in letters(example(ReminderDue)).values()} == {None}


def test_the_machines_own_zone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    instant = at("2026-07-01T10:00", "Europe/Riga")
    here = wording.when(instant, zone="Europe/Riga", locale="en")
    try:
        monkeypatch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        elsewhere = wording.when(instant, zone="Europe/Riga", locale="en")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert elsewhere == here
