"""Rows for tests, on fixed instants around NOON; only what matters is spelled out by a test."""

import datetime
from typing import Any
from uuid import UUID

import factory
from factory.django import DjangoModelFactory

from appointments.models import Appointment, AppointmentStatus
from core.actors import Actor
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot, CalendarEvent, EventOrigin, EventStatus, SlotStatus
from reminders import schedule

NOON = datetime.datetime(2030, 3, 14, 12, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)  # the least that two instants differ by
SECOND = datetime.timedelta(seconds=1)
MINUTE = datetime.timedelta(minutes=1)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)

TENANT = UUID("018f0000-0000-7000-8000-0000000000a1")
OTHER_TENANT = UUID("018f0000-0000-7000-8000-0000000000a2")


class SlotFactory(DjangoModelFactory[AvailabilitySlot]):
    """Available, an hour long, bookable until an hour before; every one of a new owner."""

    class Meta:
        model = AvailabilitySlot

    id = factory.LazyFunction(new_id)
    tenant_id = TENANT
    owner_user_id = factory.LazyFunction(new_id)
    start_at = NOON + DAY
    end_at = factory.LazyAttribute(lambda slot: slot.start_at + HOUR)
    time_zone = "Europe/Moscow"
    min_lead_time_minutes = 60
    status = SlotStatus.AVAILABLE
    created_at = NOON - 3 * DAY
    updated_at = factory.SelfAttribute("created_at")


class EventFactory(DjangoModelFactory[CalendarEvent]):
    """A Manual event of a new owner, Scheduled; no reminders of its own (see `with_reminders`)."""

    class Meta:
        model = CalendarEvent

    id = factory.LazyFunction(new_id)
    tenant_id = TENANT
    owner_user_id = factory.LazyFunction(new_id)
    origin = EventOrigin.MANUAL
    title = "Показ"
    start_at = NOON + DAY
    end_at = factory.LazyAttribute(lambda event: event.start_at + HOUR)
    time_zone = "Europe/Moscow"
    status = EventStatus.SCHEDULED
    created_at = NOON - 3 * DAY
    updated_at = factory.SelfAttribute("created_at")


class AppointmentFactory(DjangoModelFactory[Appointment]):
    """Pending on a Booked slot with its Scheduled event; by default the deadline passed a minute before NOON."""

    class Meta:
        model = Appointment
        exclude = ("start_at",)

    id = factory.LazyFunction(new_id)
    start_at = NOON + DAY
    slot = factory.SubFactory(SlotFactory, status=SlotStatus.BOOKED, start_at=factory.SelfAttribute("..start_at"))
    tenant_id = factory.SelfAttribute("slot.tenant_id")
    owner_user_id = factory.SelfAttribute("slot.owner_user_id")
    client_user_id = factory.LazyFunction(new_id)
    calendar_event = factory.SubFactory(
        EventFactory,
        tenant_id=factory.SelfAttribute("..tenant_id"),
        owner_user_id=factory.SelfAttribute("..owner_user_id"),
        client_user_id=factory.SelfAttribute("..client_user_id"),
        origin=EventOrigin.APPOINTMENT,
        source_id=factory.SelfAttribute("..id"),
        start_at=factory.SelfAttribute("..slot.start_at"),
        end_at=factory.SelfAttribute("..slot.end_at"),
    )
    status = AppointmentStatus.PENDING
    pending_expires_at = NOON - MINUTE
    created_at = factory.LazyAttribute(
        lambda appointment: (appointment.pending_expires_at or NOON) - DAY,
    )
    updated_at = factory.SelfAttribute("created_at")


def an_overdue_appointment(**fields: Any) -> Appointment:
    """Pending past its deadline, with its two Pending reminders; `event__...` is spelled `calendar_event__...`."""
    appointment: Appointment = AppointmentFactory.create(**fields)
    event = appointment.calendar_event
    offsets = tuple(event.reminder_offsets_minutes)
    schedule.materialise([schedule.Timetable(event.id, event.start_at, offsets)], as_of=appointment.created_at)
    return appointment


def owner_of(record: Any) -> Actor:
    """The owner of a slot, event or appointment, as an actor of its tenant."""
    return Actor.user(record.owner_user_id, tenant_id=record.tenant_id)


def client_of(appointment: Appointment) -> Actor:
    return Actor.user(appointment.client_user_id)


def an_open_appointment(**fields: Any) -> Appointment:
    """Pending with its deadline 23 hours ahead of NOON and its start in three days, with its two Pending reminders."""
    ahead: dict[str, Any] = {"pending_expires_at": NOON + 23 * HOUR, "start_at": NOON + 3 * DAY}
    return an_overdue_appointment(**{**ahead, **fields})
