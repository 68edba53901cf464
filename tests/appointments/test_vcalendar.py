"""The calendar file as two foreign programs read it: instants, texts, states, and the rules of RFC 5545."""

import datetime
import itertools
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from icalendar import Calendar

from appointments.vcalendar import vcalendar
from appointments.vtimezone import vtimezone
from contracts.calendar import AppointmentBooked
from contracts.samples import EXAMPLES
from core.ids import new_id
from notifications.invitations import invitation
from notifications.models import Role
from pin_calendar.models import CalendarEvent
from tests.appointments.calendar_readers import READERS, by_icalendar
from tests.factories import DAY, HOUR, MINUTE, NOON, AppointmentFactory, EventFactory

each_reader = pytest.mark.parametrize("reader", READERS)
UNTIL = NOON + 730 * DAY


def an_event(**fields: Any) -> CalendarEvent:
    return EventFactory.build(**fields)


def file_of(*events: CalendarEvent) -> bytes:
    return vcalendar(events, appointments={}, until=UNTIL)


CHANGES_OF_2030 = {
    "Europe/Riga": ("2030-03-31T01:00Z", "2030-10-27T01:00Z"),
    "America/New_York": ("2030-03-10T07:00Z", "2030-11-03T06:00Z"),
    "Australia/Lord_Howe": ("2030-04-06T15:00Z", "2030-10-05T15:30Z"),
    "America/Sao_Paulo": ("2030-03-31T01:00Z", "2030-10-27T01:00Z"),
    "Europe/Moscow": ("2030-03-31T01:00Z", "2030-10-27T01:00Z"),
    "UTC": ("2030-03-31T01:00Z", "2030-10-27T01:00Z"),
}


@each_reader
@pytest.mark.parametrize("zone", CHANGES_OF_2030)
def test_instants_around_a_change_of_dst(reader: str, zone: str) -> None:
    """Every quarter of an hour from three hours before to three hours behind, the hour that comes twice among them."""
    starts = [
        datetime.datetime.fromisoformat(change) + quarter * 15 * MINUTE
        for change in CHANGES_OF_2030[zone]
        for quarter in range(-12, 13)
    ]
    events = [an_event(start_at=start, end_at=start + 25 * MINUTE, time_zone=zone) for start in starts]

    read = READERS[reader](file_of(*events))

    assert [(entry.start_at, entry.end_at) for entry in read] == [(event.start_at, event.end_at) for event in events]


def test_times_are_told_on_the_wall_clock_of_the_events_zone() -> None:
    text = file_of(an_event(start_at=NOON, time_zone="Europe/Riga")).decode()

    assert "DTSTART;TZID=Europe/Riga:20300314T140000" in text
    assert text.count("BEGIN:VTIMEZONE") == 1


@pytest.mark.parametrize("zone", CHANGES_OF_2030)
def test_a_zone_is_told_with_the_changes_that_it_has(zone: str) -> None:
    spelled = vtimezone(zone, first_year=2029, last_year=2031)
    told = [
        (observance.decoded("dtstart") - observance.decoded("tzoffsetfrom"), observance.decoded("tzoffsetto"))
        for observance in spelled.subcomponents
    ]

    offsets = [
        (at, at.astimezone(ZoneInfo(zone)).utcoffset())
        for at in (datetime.datetime(2029, 1, 1, tzinfo=datetime.UTC) + n * 15 * MINUTE for n in range(3 * 365 * 96))
    ]
    changes = [offsets[0]] + [later for former, later in itertools.pairwise(offsets) if former[1] != later[1]]
    assert told == [(at.replace(tzinfo=None), offset) for at, offset in changes]


@each_reader
def test_what_no_wall_clock_of_the_file_tells_is_told_in_utc(reader: str) -> None:
    """A zone that is none, one of an old name, and an end beyond the years for which zones are told."""
    events = [an_event(time_zone="Mars/Base"), an_event(time_zone="Asia/Calcutta"), an_event(end_at=NOON + 9_000 * DAY)]

    text = file_of(*events)

    assert [(entry.start_at, entry.end_at) for entry in READERS[reader](text)] == [
        (event.start_at, event.end_at) for event in events
    ]
    assert [line for line in text.decode().split("\r\n") if line.startswith("TZID")] == ["TZID:Asia/Kolkata"]


HOSTILE = {
    "breaks": ("a\r\nEND:VEVENT\rBEGIN:VEVENT\nx", "a\nEND:VEVENT\nBEGIN:VEVENT\nx"),
    "other breaks": ("a\u2028b\u2029c\u0085d", "a\nb\nc\nd"),
    "controls": ("a\x0b\x0c\x1c\x1d\x1e\x07\x7f\x9fb\tc", "ab\tc"),
    "signs": ('a;b,c:d\\e"f\\n;\\;^n', 'a;b,c:d\\e"f\\n;\\;^n'),
    "long": ("Ж🏠" * 250, "Ж🏠" * 250),
    "blanks": (" " * 200 + "a", " " * 200 + "a"),
    "nothing": ("", ""),
}


@each_reader
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_title_stays_a_title(reader: str, kind: str) -> None:
    title, expected = HOSTILE[kind]
    events = [an_event(title=title), an_event(title="Показ")]

    text = file_of(*events)

    assert [entry.title for entry in READERS[reader](text)] == [expected, "Показ"]
    lines = text.split(b"\r\n")
    assert max(map(len, lines)) <= 75
    assert not any(character in line for line in lines for character in b"\r\n")
    assert lines.count(b"BEGIN:VEVENT") == 2
    assert all(line.decode().isprintable() or b"\t" in line for line in lines)  # whole characters on each line


@each_reader
def test_an_alarm_for_each_offset_and_none_of_what_is_off(reader: str) -> None:
    events = [
        an_event(reminder_offsets_minutes=[1_440, 60, 0]),
        an_event(reminder_offsets_minutes=[]),
        an_event(status="Cancelled"),
    ]

    assert [entry.alarm_minutes for entry in READERS[reader](file_of(*events))] == [[1_440, 60, 0], [], []]


@each_reader
def test_a_deadline_has_no_length(reader: str) -> None:
    event = an_event(origin="CrmDeadline", source_id=new_id(), end_at=NOON + DAY)

    [entry] = READERS[reader](text := file_of(event))

    assert (entry.start_at, entry.end_at, entry.status) == (event.start_at, event.start_at, "CONFIRMED")
    assert b"DTEND" not in text  # RFC 5545, 3.8.2.2: it must be later than the start


@each_reader
@pytest.mark.parametrize(
    ("status", "event_status", "told"),
    [
        ("Pending", "Scheduled", "TENTATIVE"),
        ("Confirmed", "Scheduled", "CONFIRMED"),
        ("Declined", "Cancelled", "CANCELLED"),
        ("Cancelled", "Cancelled", "CANCELLED"),
        ("Expired", "Cancelled", "CANCELLED"),
        ("Completed", "Completed", "CONFIRMED"),
        ("NoShow", "Completed", "CONFIRMED"),
    ],
)
def test_an_appointments_status_and_revision(reader: str, status: str, event_status: str, told: str) -> None:
    appointment = AppointmentFactory.build(
        status=status, version=4, updated_at=NOON - MINUTE, calendar_event__status=event_status
    )
    event = appointment.calendar_event
    event.version = 3

    [entry] = READERS[reader](vcalendar([event], appointments={event.id: appointment}, until=UNTIL))

    assert (entry.uid, entry.status, entry.sequence) == (f"{event.id}@pin-calendar", told, 7)
    assert entry.told_at == NOON - MINUTE


@each_reader
def test_an_empty_calendar_can_be_read(reader: str) -> None:
    assert READERS[reader](file_of()) == []


def test_the_same_events_make_the_same_file() -> None:
    event = an_event()
    assert file_of(event) == file_of(event)


def test_the_file_names_nobody() -> None:
    event = an_event(client_user_id=new_id(), cancel_reason="Личная тайна", status="Cancelled")
    text = file_of(event).decode()

    for word in (event.owner_user_id, event.client_user_id, event.tenant_id, "тайна", "ATTENDEE", "ORGANIZER"):
        assert str(word) not in text
    names = {line.partition(":")[0].partition(";")[0] for line in text.split("\r\n") if line[:1].strip()}
    assert names >= {"VERSION", "PRODID", "UID", "DTSTAMP", "SEQUENCE"}


def test_mail_and_feed_know_an_appointment_by_one_uid() -> None:
    booked = EXAMPLES[AppointmentBooked]
    mailed = invitation(booked, role=Role.CLIENT, locale="ru", to_email="a@pin.example")
    assert mailed is not None

    [in_mail] = [str(event["uid"]) for event in Calendar.from_ical(mailed.text).events]
    [in_feed] = by_icalendar(file_of(an_event(id=booked.event_id)))
    assert in_mail == in_feed.uid


def test_a_year_of_meetings_is_read_back_whole() -> None:
    events = [an_event(start_at=NOON + n * 17 * HOUR) for n in range(500)]
    assert [entry.start_at for entry in by_icalendar(file_of(*events))] == [event.start_at for event in events]
