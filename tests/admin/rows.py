"""Rows for the back office, made past the use cases where these would take long to bring them about."""

import datetime
from typing import Any
from uuid import UUID

from appointments import feeds, rescheduling
from appointments.models import Appointment, CalendarFeed, ReassignmentConflict
from contracts.calendar import AppointmentRescheduled
from core import sql
from core.actors import Actor
from core.ids import new_id
from crm.models import AssigneeChange, Deadline, LeadFeedEntry
from notifications.models import Delivery, Recipient
from outbox.models import OutboxBlockedKey, OutboxMessage
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from tests.factories import DAY, HOUR, NOON, TENANT, EventFactory, SlotFactory, an_open_appointment
from tests.ops import lives
from workers.models import JobRun


def a_slot(**fields: Any) -> AvailabilitySlot:
    slot: AvailabilitySlot = SlotFactory.create(**fields)
    return slot


def an_event(**fields: Any) -> CalendarEvent:
    event: CalendarEvent = EventFactory.create(**fields)
    return event


def a_meeting_that_was() -> Appointment:
    return an_open_appointment(status="Confirmed", start_at=NOON - DAY)


def a_conflict(*, appointment: Appointment | None = None, **fields: Any) -> ReassignmentConflict:
    return ReassignmentConflict.objects.create(
        tenant_id=TENANT,
        appointment=appointment or an_open_appointment(),
        from_owner_user_id=new_id(),
        to_owner_user_id=new_id(),
        correlation_id=new_id(),
        created_at=NOON - HOUR,
        **fields,
    )


def a_feed(*, user_id: UUID | None = None, as_of: datetime.datetime = NOON) -> CalendarFeed:
    """Of a client, so of no tenant."""
    user_id = user_id or new_id()
    feeds.issue(actor=Actor.user(user_id), shows_owned=False, as_of=as_of)
    return CalendarFeed.objects.get(user_id=user_id)


def an_ended_conflict() -> ReassignmentConflict:
    """Nobody has resolved it, and its appointment is declined."""
    return a_conflict(appointment=an_open_appointment(status="Declined"))


def a_parked_message() -> OutboxMessage:
    """The first move of a request, refused by Kafka; the second waits behind it."""
    request = lives.moved()
    rescheduling.reschedule(
        request.id,
        lives.a_slot(request.owner_user_id, start_at=NOON + 3 * DAY).id,
        actor=Actor.user(request.owner_user_id, tenant_id=TENANT),
        as_of=NOON - HOUR,
    )
    sql.execute(
        "INSERT INTO outbox_parked (id, topic, key, parked_at) SELECT id, topic, key, %s FROM outbox_messages"
        " WHERE topic = %s",
        [NOON, AppointmentRescheduled.TOPIC],
    )
    sql.execute("DELETE FROM outbox_ready")
    first = OutboxMessage.objects.filter(topic=AppointmentRescheduled.TOPIC).earliest("id")
    OutboxBlockedKey.objects.create(
        topic=first.topic,
        key=first.key,
        shard=0,
        reason="MSG_SIZE_TOO_LARGE",
        error="too large",
        attempt_count=3,
        blocked_at=NOON - HOUR,
        next_attempt_at=NOON + HOUR,
    )
    return first


def a_delivery(status: str = "parked") -> Delivery:
    """To a client whose address is known."""
    recipient = Recipient.objects.create(user_id=new_id(), email="client@example.org")
    return Delivery.objects.create(
        tenant_id=TENANT,
        fact=f"told once {new_id()}",
        message_id=new_id(),
        topic="pin.calendar.appointment-booked.v1",
        payload="{}",
        subject_id=new_id(),
        kind="AppointmentBooked",
        role="client",
        recipient_user_id=recipient.user_id,
        channel="email",
        status=status,
        attempts=8,
        next_attempt_at=NOON - DAY,
        correlation_id=new_id(),
        created_at=NOON - DAY,
        updated_at=NOON - DAY,
        error="mailbox full",
    )


def a_run(job: str = "appointment-timeout", outcome: str = "Succeeded", **counts: int) -> JobRun:
    return JobRun.objects.create(
        id=new_id(),
        job=job,
        instance="here:1",
        as_of=NOON,
        started_at=NOON,
        duration_ms=12,
        outcome=outcome,
        counts=counts,
    )


def an_assignee_change() -> AssigneeChange:
    return AssigneeChange.objects.create(
        tenant_id=TENANT,
        revision=AssigneeChange.objects.count() + 1,
        from_owner_user_id=new_id(),
        to_owner_user_id=new_id(),
        moved_appointments=1,
        moved_events=2,
        conflicts=0,
        created_at=NOON,
    )


def a_lead_feed_entry() -> LeadFeedEntry:
    return LeadFeedEntry.objects.create(
        tenant_id=TENANT,
        client_user_id=new_id(),
        owner_user_id=new_id(),
        appointment_id=new_id(),
        fact=str(new_id()),
        event="Booked",
        text="клиент записался на встречу",
        occurred_at=NOON,
        aggregate_version=1,
        created_at=NOON,
    )


def a_deadline() -> Deadline:
    return Deadline.objects.create(
        tenant_id=TENANT,
        booking_id=new_id(),
        revision=1,
        state="Open",
        owner_user_id=new_id(),
        event=an_event(origin="CrmDeadline", source_id=new_id()),
        created_at=NOON,
        updated_at=NOON,
    )
