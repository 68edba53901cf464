"""A message becomes a delivery a person and channel, in the transaction that notes the message as handled."""

import datetime
from collections.abc import Iterable
from uuid import UUID

from django.conf import settings

from contracts.calendar import ReminderDue
from core import zones
from core.correlation import correlation_id
from notifications import audience, channels
from notifications.audience import Told
from notifications.models import Delivery, Recipient, Status


def record(message: Told, *, message_id: UUID, as_of: datetime.datetime) -> list[Delivery]:
    """Write what is to be told of it, and return it; what was written before, under whatever message id, is left alone.

    Nobody to be reached is no failure: it is written too. Raises InvalidField for a time zone that nobody knows.
    """
    kind = audience.kind_of(message)
    if kind is None:
        return []
    zones.checked(message.time_zone)
    addressees = audience.addressees(message)
    known = Recipient.objects.in_bulk([addressee.user_id for addressee in addressees])
    subject_id = getattr(message, "appointment_id", None) or message.event_id
    deliveries = [
        Delivery(
            tenant_id=message.tenant_id,
            fact=message.dedup_key,
            message_id=message_id,
            topic=message.TOPIC,
            payload=message.to_json(),
            subject_id=subject_id,
            kind=kind,
            role=addressee.role,
            recipient_user_id=addressee.user_id,
            channel=channel,
            status=status,
            next_attempt_at=as_of,
            correlation_id=correlation_id(),
            created_at=as_of,
            updated_at=as_of,
        )
        for addressee in addressees
        for channel, status in _ways(known.get(addressee.user_id), is_stale=is_stale(message, as_of=as_of))
    ]
    Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    return list(Delivery.objects.filter(id__in=[delivery.id for delivery in deliveries]))


def is_stale(message: Told, *, as_of: datetime.datetime) -> bool:
    """Whether it reminds of what began too long ago. The message does not say when its event ends."""
    limit = datetime.timedelta(minutes=settings.ENV.notifications_stale_after_minutes)
    return isinstance(message, ReminderDue) and as_of > message.start_at + limit


def _ways(recipient: Recipient | None, *, is_stale: bool) -> Iterable[tuple[str, Status]]:
    if recipient is None:
        return [("", Status.NO_CHANNEL)]
    if not recipient.is_active:
        return [("", Status.INACTIVE)]
    status = Status.STALE if is_stale else Status.PENDING
    return [(channel, status) for channel in channels.of(recipient)] or [("", Status.NO_CHANNEL)]
