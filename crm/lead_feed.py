"""What became of a client's appointments, a line each, for the client's lead in the CRM."""

import datetime
from typing import get_args

from contracts.base import Contract
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentCompleted,
    AppointmentConfirmed,
    AppointmentOutcome,
    CancelReason,
)
from crm.models import LeadEvent, LeadFeedEntry

Told = AppointmentBooked | AppointmentConfirmed | AppointmentCancelled | AppointmentCompleted
CONTRACTS: tuple[type[Contract], ...] = get_args(Told)

_CANCELLED = {
    CancelReason.EXPIRED: LeadEvent.EXPIRED,
    CancelReason.DECLINED: LeadEvent.DECLINED,
    CancelReason.CANCELLED_BY_CLIENT: LeadEvent.CANCELLED_BY_CLIENT,
    CancelReason.CANCELLED_BY_OWNER: LeadEvent.CANCELLED_BY_OWNER,
}
_COMPLETED = {
    AppointmentOutcome.COMPLETED: LeadEvent.COMPLETED,
    AppointmentOutcome.NO_SHOW: LeadEvent.NO_SHOW,
}


def append(message: Told, *, as_of: datetime.datetime) -> None:
    """Its line; none when there is one already."""
    event = _event(message)
    entry = LeadFeedEntry(
        tenant_id=message.tenant_id,
        client_user_id=message.client_user_id,
        owner_user_id=message.owner_user_id,
        appointment_id=message.appointment_id,
        fact=message.dedup_key,
        event=event,
        text=event.label,
        occurred_at=message.occurred_at,
        aggregate_version=message.aggregate_version,
        created_at=as_of,
    )
    LeadFeedEntry.objects.bulk_create([entry], ignore_conflicts=True)


def _event(message: Told) -> LeadEvent:
    match message:
        case AppointmentBooked():
            return LeadEvent.BOOKED
        case AppointmentConfirmed():
            return LeadEvent.CONFIRMED
        case AppointmentCancelled():
            return _CANCELLED[message.reason]
        case AppointmentCompleted():
            return _COMPLETED[message.outcome]
