"""Who is told of a message, as whom, and what kind of text they get."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args
from uuid import UUID

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
from notifications.models import Kind, Role

Told = (
    ReminderDue
    | AppointmentBooked
    | AppointmentConfirmed
    | AppointmentRescheduled
    | AppointmentReassigned
    | AppointmentCancelled
    | EventStatusChanged
)
CONTRACTS: tuple[type[Message], ...] = get_args(Told)

_CANCELLED = {
    CancelReason.EXPIRED: Kind.APPOINTMENT_EXPIRED,
    CancelReason.DECLINED: Kind.APPOINTMENT_DECLINED,
    CancelReason.CANCELLED_BY_CLIENT: Kind.APPOINTMENT_CANCELLED_BY_CLIENT,
    CancelReason.CANCELLED_BY_OWNER: Kind.APPOINTMENT_CANCELLED_BY_OWNER,
}
_REMINDER = {
    ReminderKind.APPOINTMENT_REMINDER: Kind.APPOINTMENT_REMINDER,
    ReminderKind.CALENDAR_REMINDER: Kind.CALENDAR_REMINDER,
}
_OF_ONE_KIND: dict[type[Message], Kind] = {
    AppointmentConfirmed: Kind.APPOINTMENT_CONFIRMED,
    AppointmentRescheduled: Kind.APPOINTMENT_RESCHEDULED,
    AppointmentReassigned: Kind.APPOINTMENT_REASSIGNED,
}
_EVENT = {EventStatus.CANCELLED: Kind.EVENT_CANCELLED, EventStatus.COMPLETED: Kind.EVENT_COMPLETED}


@dataclass(frozen=True, slots=True)
class Addressee:
    """A person in their part of the matter."""

    user_id: UUID
    role: Role


def kind_of(message: Told) -> Kind | None:
    """The kind of its texts; None for what others of its messages tell already."""
    match message:
        case ReminderDue():
            return _REMINDER[message.kind]
        case AppointmentBooked():
            # Confirmed at once: appointment-confirmed tells the same people.
            return Kind.APPOINTMENT_BOOKED if message.status is LiveStatus.PENDING else None
        case AppointmentCancelled():
            return _CANCELLED[message.reason]
        case EventStatusChanged():
            # Of an appointment's event the appointment's own messages tell.
            return None if message.origin is EventOrigin.APPOINTMENT else _EVENT.get(message.status)
        case _:
            return _OF_ONE_KIND[type(message)]


def addressees(message: Told) -> list[Addressee]:
    """Each person once, in their first part: who is agent and client at a time is told as the agent."""
    parts: dict[UUID, Role] = {}
    for addressee in _parts(message):
        parts.setdefault(addressee.user_id, addressee.role)
    return [Addressee(user_id, role) for user_id, role in parts.items()]


def _parts(message: Told) -> Iterator[Addressee]:
    yield Addressee(message.owner_user_id, Role.OWNER)
    if isinstance(message, AppointmentReassigned):
        yield Addressee(message.previous_owner_user_id, Role.PREVIOUS_OWNER)
    if message.client_user_id is not None and not _is_owners_own(message):
        yield Addressee(message.client_user_id, Role.CLIENT)


def _is_owners_own(message: Told) -> bool:
    """What stands in the owner's calendar alone: a manual event, a deadline of the CRM."""
    return isinstance(message, EventStatusChanged) or (
        isinstance(message, ReminderDue) and message.kind is ReminderKind.CALENDAR_REMINDER
    )
