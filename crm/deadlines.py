"""UC-CAL-007: one event a booking follows the CRM's deadline. Messages converge in any order: the newest revision wins.

A deadline that was closed before it was ever seen open leaves no event; one that reopens gets a new event.
"""

import datetime
from enum import StrEnum
from uuid import UUID

from audit import log as audit_log
from contracts.calendar import EventReason
from contracts.crm import BookingDeadlineChanged, DeadlineState
from core import advisory, zones
from core.actors import Actor
from crm.models import Deadline
from outbox.publish import publish
from pin_calendar import events
from pin_calendar.events import Event, EventChange
from pin_calendar.models import EventOrigin, EventStatus, in_utc, refuse_bad_text

CANCEL_REASON = "Дедлайн отменён в CRM"
_VERB = "follow_crm"
_LIVE = (DeadlineState.OPEN, DeadlineState.MOVED)


class Applied(StrEnum):
    """What a message came to."""

    CREATED = "created"
    CHANGED = "changed"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    NOTED = "noted"
    IGNORED = "ignored"


def apply(message: BookingDeadlineChanged, *, as_of: datetime.datetime) -> Applied:
    """Follow the message, in the caller's transaction.

    Raises InvalidField for an unknown zone, a bad title, or a deadline in a year that no calendar needs.
    """
    zone = zones.checked(message.time_zone)
    in_utc("deadline_at", message.deadline_at)
    refuse_bad_text("title", message.title)
    advisory.lock(f"crm-deadline:{message.tenant_id}:{message.booking_id}")
    deadline = Deadline.objects.filter(tenant_id=message.tenant_id, booking_id=message.booking_id).first()
    if deadline is not None and message.revision <= deadline.revision:
        return Applied.IGNORED
    if deadline is None:
        deadline = Deadline(tenant_id=message.tenant_id, booking_id=message.booking_id, created_at=as_of)
    scheduled = _scheduled(deadline)
    if message.state in _LIVE:
        if scheduled is None:
            deadline.event_id = _create(message, zone=zone, as_of=as_of)
            applied = Applied.CREATED
        else:
            _write(_follow(scheduled, message, named=deadline.owner_user_id, zone=zone), as_of=as_of)
            applied = Applied.CHANGED
    elif scheduled is None:
        applied = Applied.NOTED
    elif message.state is DeadlineState.CLOSED:
        _write(events.complete(scheduled, reason=EventReason.CRM), as_of=as_of)
        applied = Applied.COMPLETED
    else:
        _write(events.cancel(scheduled, reason=EventReason.CRM, cancel_reason=CANCEL_REASON), as_of=as_of)
        applied = Applied.CANCELLED
    deadline.revision, deadline.state, deadline.updated_at = message.revision, message.state.value, as_of
    deadline.owner_user_id = message.owner_user_id
    deadline.save()
    return applied


def _scheduled(deadline: Deadline) -> Event | None:
    """The deadline's event, locked, while it is Scheduled."""
    event = events.lock(deadline.event_id) if deadline.event_id is not None else None
    return event if event is not None and event.status == EventStatus.SCHEDULED else None


def _create(message: BookingDeadlineChanged, *, zone: str, as_of: datetime.datetime) -> UUID:
    event = events.new(
        tenant_id=message.tenant_id,
        owner_user_id=message.owner_user_id,
        client_user_id=message.client_user_id,
        origin=EventOrigin.CRM_DEADLINE,
        source_id=message.booking_id,
        title=message.title,
        start_at=message.deadline_at,
        end_at=message.deadline_at,
        time_zone=zone,
    )
    events.insert([event], as_of=as_of)
    audit_log.record(events.creation_lines([event], verb=_VERB), actor=Actor.system(), as_of=as_of)
    return event.id


def _follow(event: Event, message: BookingDeadlineChanged, *, named: UUID, zone: str) -> EventChange:
    """The event as the message has it. Its owner stays who a reassignment made it, until the CRM names another one."""
    return events.edit(
        event,
        owner_user_id=event.owner_user_id if message.owner_user_id == named else message.owner_user_id,
        client_user_id=message.client_user_id,
        title=message.title,
        start_at=message.deadline_at,
        end_at=message.deadline_at,
        time_zone=zone,
    )


def _write(change: EventChange, *, as_of: datetime.datetime) -> None:
    events.write([change], as_of=as_of)
    audit_log.record(events.audit_lines([change], verb=_VERB), actor=Actor.system(), as_of=as_of)
    publish(events.messages([change], as_of=as_of), as_of=as_of)
