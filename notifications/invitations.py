"""The iCalendar file of a mail about an appointment: one UID for its whole life, SEQUENCE rising with its version."""

import datetime
from dataclasses import dataclass
from email.utils import parseaddr

from django.conf import settings
from icalendar import Calendar as ICalendar
from icalendar import Event, vCalAddress, vText

from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentConfirmed,
    AppointmentReassigned,
    AppointmentRescheduled,
    LiveStatus,
)
from notifications.audience import Told
from notifications.channels import Calendar
from notifications.models import Delivery, Role

_OF_AN_APPOINTMENT = (
    AppointmentBooked,
    AppointmentConfirmed,
    AppointmentRescheduled,
    AppointmentReassigned,
    AppointmentCancelled,
)
_WITH_TIMES: dict[str, type[AppointmentBooked | AppointmentConfirmed | AppointmentRescheduled]] = {
    contract.TOPIC: contract for contract in (AppointmentBooked, AppointmentConfirmed, AppointmentRescheduled)
}
_SUMMARY = {
    ("ru", Role.CLIENT): "Встреча с агентом",
    ("ru", Role.OWNER): "Встреча с клиентом",
    ("en", Role.CLIENT): "Meeting with the agent",
    ("en", Role.OWNER): "Meeting with the client",
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """How the appointment stands in a calendar: `end_at` and whether it is agreed."""

    end_at: datetime.datetime | None
    is_confirmed: bool


def invitation(message: Told, *, role: str, locale: str, to_email: str) -> Calendar | None:
    """None when the message changes nothing in the calendar of a person in that role."""
    if not isinstance(message, _OF_AN_APPOINTMENT):
        return None
    is_over = isinstance(message, AppointmentCancelled) or role == Role.PREVIOUS_OWNER
    entry = _Entry(None, is_confirmed=False) if is_over else _entry(message)
    if entry is None:
        return None
    event = Event()
    event.add("uid", f"{message.event_id}@pin-calendar")
    event.add("sequence", message.aggregate_version)
    event.add("dtstamp", message.occurred_at)
    event.add("dtstart", message.start_at)
    if entry.end_at is not None:
        event.add("dtend", entry.end_at)
    event.add("summary", _SUMMARY[locale, Role.CLIENT if role == Role.CLIENT else Role.OWNER])
    event.add("status", "CANCELLED" if is_over else "CONFIRMED" if entry.is_confirmed else "TENTATIVE")
    event.add("organizer", vCalAddress(f"mailto:{parseaddr(settings.DEFAULT_FROM_EMAIL)[1]}"))
    attendee = vCalAddress(f"mailto:{to_email}")
    attendee.params["PARTSTAT"] = vText("ACCEPTED")
    attendee.params["RSVP"] = vText("FALSE")
    event.add("attendee", attendee)
    method = "CANCEL" if is_over else "REQUEST"
    calendar = ICalendar()
    calendar.add("prodid", "-//PIN//Calendar//RU")
    calendar.add("version", "2.0")
    calendar.add("method", method)
    calendar.add_component(event)
    return Calendar(method=method, text=calendar.to_ical().decode())


def _entry(message: Told) -> _Entry | None:
    match message:
        case AppointmentBooked() | AppointmentRescheduled():
            return _Entry(message.end_at, is_confirmed=message.status is LiveStatus.CONFIRMED)
        case AppointmentConfirmed():
            return _Entry(message.end_at, is_confirmed=True)
        case AppointmentReassigned():
            return _as_told_before(message)
        case _:
            return None


def _as_told_before(message: AppointmentReassigned) -> _Entry | None:
    """A reassignment moves nothing and does not say when the appointment ends: the messages before it did."""
    told = Delivery.objects.filter(subject_id=message.appointment_id, topic__in=_WITH_TIMES)
    earlier = [
        _WITH_TIMES[topic].model_validate_json(payload) for topic, payload in told.values_list("topic", "payload")
    ]
    before = [m for m in earlier if m.aggregate_version < message.aggregate_version]
    latest = max(before, key=lambda m: m.aggregate_version, default=None)
    return _entry(latest) if latest is not None and latest.start_at == message.start_at else None
