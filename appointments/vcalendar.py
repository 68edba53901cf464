"""A person's events as an iCalendar file (RFC 5545), which names nobody and is the same as long as they are."""

import datetime
import re
from collections.abc import Mapping, Sequence
from uuid import UUID
from zoneinfo import ZoneInfo

from icalendar import Alarm, Calendar, Event

from appointments.models import Appointment, AppointmentStatus
from appointments.vtimezone import is_ambiguous, vtimezone
from core import zones
from pin_calendar.models import CalendarEvent, EventStatus

_NEW_LINE = re.compile("\r\n|[\r\u0085\u2028\u2029]")
# RFC 5545 forbids them, and some parsers end a line at one of them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def vcalendar(
    events: Sequence[CalendarEvent], *, appointments: Mapping[UUID, Appointment], until: datetime.datetime
) -> bytes:
    """The file. `appointments` are those of the events, by event; zones are told up to the year of `until`."""
    calendar = Calendar()
    calendar.add("version", "2.0")
    calendar.add("prodid", "-//PIN//Calendar//RU")
    calendar.add("x-wr-calname", "PIN")
    calendar.add("refresh-interval", datetime.timedelta(hours=1), parameters={"value": "DURATION"})
    calendar.add("x-published-ttl", "PT1H")
    placed = [(event, _zone(event, until=until)) for event in events]
    names = sorted({zone.key for _, zone in placed if zone is not None})
    first_year = min((event.start_at for event in events), default=until).year - 1
    for name in names:
        calendar.add_component(vtimezone(name, first_year=first_year, last_year=until.year))
    for event, zone in placed:
        calendar.add_component(_vevent(event, appointments.get(event.id), zone))
    text: bytes = calendar.to_ical()
    return text


def _vevent(event: CalendarEvent, appointment: Appointment | None, zone: ZoneInfo | None) -> Event:
    title = _NEW_LINE.sub("\n", event.title)
    title = _CONTROLS.sub("", title)
    entry = Event()
    # That of the files in our mails, so that a calendar which has both knows them for one.
    entry.add("uid", f"{event.id}@pin-calendar")
    entry.add("sequence", event.version + (appointment.version if appointment else 0))
    entry.add("dtstamp", max(event.updated_at, appointment.updated_at) if appointment else event.updated_at)
    entry.add("dtstart", event.start_at.astimezone(zone or datetime.UTC))
    if event.end_at > event.start_at:  # what has no length, such as a deadline, must have no DTEND
        entry.add("dtend", event.end_at.astimezone(zone or datetime.UTC))
    entry.add("summary", title)
    entry.add("status", _status(event, appointment))
    if event.status != EventStatus.CANCELLED:
        for minutes in event.reminder_offsets_minutes:
            alarm = Alarm()
            alarm.add("action", "DISPLAY")
            alarm.add("description", title)
            alarm.add("trigger", -datetime.timedelta(minutes=minutes))
            entry.add_component(alarm)
    return entry


def _status(event: CalendarEvent, appointment: Appointment | None) -> str:
    if event.status == EventStatus.CANCELLED:
        return "CANCELLED"
    is_asked_for = appointment is not None and appointment.status == AppointmentStatus.PENDING
    return "TENTATIVE" if is_asked_for else "CONFIRMED"


def _zone(event: CalendarEvent, *, until: datetime.datetime) -> ZoneInfo | None:
    """None, which is UTC, where the event's zone is none or its wall clock would not tell the instants to everyone."""
    try:
        zone = ZoneInfo(zones.canonical(event.time_zone))
    except ValueError:
        return None
    instants = (event.start_at, event.end_at)
    is_told = event.end_at < until and not any(is_ambiguous(instant, zone) for instant in instants)
    return zone if is_told and zone.key != "UTC" else None
