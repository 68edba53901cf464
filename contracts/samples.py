"""One example of each message, on fixed ids and instants: published beside its schema, and used by consumers' tests."""

import datetime
from typing import Any
from uuid import UUID

from contracts import calendar, crm
from contracts.base import Contract

_TENANT = UUID("00000000-0000-7000-8000-000000000001")
_APPOINTMENT = UUID("01956b3a-7c00-7a10-8001-00000000a001")
_EVENT = UUID("01956b3a-7c00-7a10-8001-00000000e001")
_SLOT = UUID("01956b3a-7c00-7a10-8001-000000005001")
_NEXT_SLOT = UUID("01956b3a-7c00-7a10-8001-000000005002")
_BOOKING = UUID("01956b3a-7c00-7a10-8001-00000000d001")
_REMINDER = UUID("01956b3a-7c00-7a10-8001-000000003001")
_AGENT = UUID("01956b3a-7c00-7a10-8001-00000000b001")
_OTHER_AGENT = UUID("01956b3a-7c00-7a10-8001-00000000b002")
_CLIENT = UUID("01956b3a-7c00-7a10-8001-00000000c001")
_ZONE = "Europe/Riga"


def _at(day: int, hour: int) -> datetime.datetime:
    return datetime.datetime(2026, 3, day, hour, tzinfo=datetime.UTC)


def _common(day: int, *, version: int) -> dict[str, Any]:
    return {"tenant_id": _TENANT, "occurred_at": _at(day, 9), "aggregate_version": version}


_PARTIES = {"appointment_id": _APPOINTMENT, "event_id": _EVENT, "owner_user_id": _AGENT, "client_user_id": _CLIENT}
_PLACE = {"slot_id": _SLOT, "start_at": _at(5, 8), "end_at": _at(5, 9), "time_zone": _ZONE}
_NEXT_PLACE = {"slot_id": _NEXT_SLOT, "start_at": _at(6, 8), "end_at": _at(6, 9), "time_zone": _ZONE}

EXAMPLES: dict[type[Contract], Any] = {
    type(message): message
    for message in (
        calendar.AppointmentBooked(
            **_common(1, version=1),
            **_PARTIES,
            **_PLACE,
            status=calendar.LiveStatus.PENDING,
            pending_expires_at=_at(2, 9),
        ),
        calendar.AppointmentConfirmed(**_common(1, version=2), **_PARTIES, **_PLACE),
        calendar.AppointmentRescheduled(
            **_common(2, version=3),
            **_PARTIES,
            **_NEXT_PLACE,
            previous_slot_id=_SLOT,
            previous_start_at=_at(5, 8),
            status=calendar.LiveStatus.CONFIRMED,
        ),
        calendar.AppointmentCancelled(
            **_common(2, version=2),
            **_PARTIES,
            slot_id=_SLOT,
            start_at=_at(5, 8),
            time_zone=_ZONE,
            reason=calendar.CancelReason.EXPIRED,
            slot_outcome=calendar.SlotOutcome.RELEASED,
        ),
        calendar.AppointmentReassigned(
            **_common(3, version=4),
            **{**_PARTIES, "owner_user_id": _OTHER_AGENT},
            previous_owner_user_id=_AGENT,
            start_at=_at(6, 8),
            time_zone=_ZONE,
        ),
        calendar.AppointmentCompleted(
            **_common(6, version=5), **_PARTIES, outcome=calendar.AppointmentOutcome.COMPLETED
        ),
        calendar.EventStatusChanged(
            **_common(2, version=2),
            event_id=_EVENT,
            owner_user_id=_AGENT,
            client_user_id=_CLIENT,
            origin=calendar.EventOrigin.APPOINTMENT,
            appointment_id=_APPOINTMENT,
            previous_status=calendar.EventStatus.SCHEDULED,
            status=calendar.EventStatus.CANCELLED,
            start_at=_at(5, 8),
            time_zone=_ZONE,
            reason=calendar.EventReason.EXPIRED,
        ),
        calendar.ReminderDue(
            **_common(4, version=2),
            reminder_id=_REMINDER,
            event_id=_EVENT,
            owner_user_id=_AGENT,
            client_user_id=_CLIENT,
            kind=calendar.ReminderKind.APPOINTMENT_REMINDER,
            start_at=_at(5, 8),
            time_zone=_ZONE,
            offset_minutes=1_440,
            appointment_id=_APPOINTMENT,
        ),
        crm.BookingDeadlineChanged(
            tenant_id=_TENANT,
            booking_id=_BOOKING,
            owner_user_id=_AGENT,
            client_user_id=_CLIENT,
            title="Устная бронь: внести предоплату",
            deadline_at=_at(7, 15),
            time_zone=_ZONE,
            state=crm.DeadlineState.OPEN,
            revision=1,
        ),
        crm.AssigneeChanged(tenant_id=_TENANT, from_owner_user_id=_AGENT, to_owner_user_id=_OTHER_AGENT, revision=1),
    )
}
