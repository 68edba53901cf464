"""The calendar's messages, version 1. A change that breaks a reader is a new class on a new topic.

No personal data and no free text of users. `docs/messages.md`, the JSON Schemas and the AsyncAPI document are made
from these classes (`make schemas`).
"""

from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from contracts.base import Instant, Message, Once


class CancelReason(StrEnum):
    EXPIRED = "Expired"
    DECLINED = "Declined"
    CANCELLED_BY_CLIENT = "CancelledByClient"
    CANCELLED_BY_OWNER = "CancelledByOwner"


class EventReason(StrEnum):
    EXPIRED = "Expired"
    DECLINED = "Declined"
    CANCELLED_BY_CLIENT = "CancelledByClient"
    CANCELLED_BY_OWNER = "CancelledByOwner"
    OWNER_REQUEST = "OwnerRequest"
    CRM = "Crm"


class SlotOutcome(StrEnum):
    RELEASED = "Released"
    EXPIRED = "Expired"


class LiveStatus(StrEnum):
    PENDING = "Pending"
    CONFIRMED = "Confirmed"


class AppointmentOutcome(StrEnum):
    COMPLETED = "Completed"
    NO_SHOW = "NoShow"


class EventOrigin(StrEnum):
    MANUAL = "Manual"
    APPOINTMENT = "Appointment"
    CRM_DEADLINE = "CrmDeadline"


class EventStatus(StrEnum):
    SCHEDULED = "Scheduled"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class ReminderKind(StrEnum):
    APPOINTMENT_REMINDER = "AppointmentReminder"
    CALENDAR_REMINDER = "CalendarReminder"


class _AppointmentMessage(Message):
    KEY_FIELD: ClassVar[str] = "appointment_id"
    SUBJECT_FIELD: ClassVar[str] = "appointment_id"
    ONCE: ClassVar[Once] = Once.A_VERSION

    appointment_id: UUID
    event_id: UUID
    owner_user_id: UUID
    client_user_id: UUID


class AppointmentBooked(_AppointmentMessage):
    """A client asked for a slot (Pending), or got it at once (Confirmed, auto-confirm)."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-booked.v1"
    ONCE: ClassVar[Once] = Once.A_SUBJECT

    slot_id: UUID
    start_at: Instant
    end_at: Instant
    time_zone: str
    status: LiveStatus
    pending_expires_at: Instant | None = None


class AppointmentConfirmed(_AppointmentMessage):
    """The appointment is agreed. After a client's move it may be agreed again."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-confirmed.v1"

    slot_id: UUID
    start_at: Instant
    end_at: Instant
    time_zone: str


class AppointmentRescheduled(_AppointmentMessage):
    """The appointment moved to another slot of the same owner."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-rescheduled.v1"

    slot_id: UUID
    start_at: Instant
    end_at: Instant
    time_zone: str
    previous_slot_id: UUID
    previous_start_at: Instant
    status: LiveStatus


class AppointmentCancelled(_AppointmentMessage):
    """The appointment ended without taking place; its slot was given back or had lapsed."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-cancelled.v1"
    ONCE: ClassVar[Once] = Once.A_SUBJECT

    slot_id: UUID
    start_at: Instant
    time_zone: str
    reason: CancelReason
    slot_outcome: SlotOutcome


class AppointmentReassigned(_AppointmentMessage):
    """The appointment has a new owner of the same tenant."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-reassigned.v1"

    previous_owner_user_id: UUID
    start_at: Instant
    time_zone: str


class AppointmentCompleted(_AppointmentMessage):
    """The appointment took place, or the client did not come."""

    TOPIC: ClassVar[str] = "pin.calendar.appointment-completed.v1"
    ONCE: ClassVar[Once] = Once.A_SUBJECT

    outcome: AppointmentOutcome


class EventStatusChanged(Message):
    """A calendar event of any origin changed its status."""

    TOPIC: ClassVar[str] = "pin.calendar.event-status-changed.v1"
    KEY_FIELD: ClassVar[str] = "event_id"
    SUBJECT_FIELD: ClassVar[str] = "event_id"
    ONCE: ClassVar[Once] = Once.A_VERSION

    event_id: UUID
    owner_user_id: UUID
    client_user_id: UUID | None = None
    origin: EventOrigin
    appointment_id: UUID | None = None
    previous_status: EventStatus
    status: EventStatus
    start_at: Instant
    time_zone: str
    reason: EventReason | None = None


class ReminderDue(Message):
    """A reminder has become due; notifications tells the people concerned."""

    TOPIC: ClassVar[str] = "pin.calendar.reminder-due.v1"
    KEY_FIELD: ClassVar[str] = "event_id"
    SUBJECT_FIELD: ClassVar[str] = "reminder_id"
    ONCE: ClassVar[Once] = Once.A_SUBJECT

    reminder_id: UUID
    event_id: UUID
    owner_user_id: UUID
    client_user_id: UUID | None = None
    kind: ReminderKind
    start_at: Instant
    time_zone: str
    offset_minutes: Annotated[int, Field(ge=0, le=40_320)]
    appointment_id: UUID | None = None


PUBLISHED: tuple[type[Message], ...] = (
    AppointmentBooked,
    AppointmentConfirmed,
    AppointmentRescheduled,
    AppointmentCancelled,
    AppointmentReassigned,
    AppointmentCompleted,
    EventStatusChanged,
    ReminderDue,
)
