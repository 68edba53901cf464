"""What people and time do with deliveries: send again what was not sent, forget what is old."""

import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction

from core import logs
from core.errors import NotFound, Refused, VersionConflict
from notifications import channels
from notifications.models import Delivery, Recipient, Status

log = logs.get(__name__)

_PURGE_BATCH = 5_000
_UNSENT = (Status.PARKED, Status.NO_CHANNEL, Status.INACTIVE)


class NotResendable(Refused):
    """The delivery was sent, is on its way, or its recipient can't be reached now."""

    code = "not_resendable"


def is_resendable(delivery: Delivery) -> bool:
    """Whether it was given up, so that asking for it again makes sense."""
    return delivery.status in _UNSENT


def version_of(delivery: Delivery) -> str:
    """Another after each note and each resending; a lease alone leaves it."""
    return str(delivery.updated_at)


@transaction.atomic
def resend(delivery_id: UUID, *, by: str, as_of: datetime.datetime, seen_version: str | None = None) -> Delivery:
    """Make a delivery that was given up due at once. Raises NotFound, VersionConflict, NotResendable.

    `seen_version` is its `version_of` that the person saw, if they say. One that had no channel gets the recipient's
    first, unless somebody was told the fact through it.
    """
    delivery = Delivery.objects.select_for_update().filter(id=delivery_id).first()
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if seen_version is not None and seen_version != version_of(delivery):
        raise VersionConflict(f"delivery {delivery_id} has changed since then")
    if not is_resendable(delivery):
        raise NotResendable(f"delivery {delivery_id} is {delivery.status}")
    delivery.channel = delivery.channel or _channel(delivery)
    delivery.status, delivery.attempts, delivery.error = Status.PENDING, 0, ""
    delivery.next_attempt_at = delivery.updated_at = as_of
    delivery.save()
    log.warning("delivery resent", by=by, delivery_id=str(delivery_id))
    return delivery


def _channel(delivery: Delivery) -> str:
    recipient = Recipient.objects.filter(user_id=delivery.recipient_user_id, is_active=True).first()
    told = Delivery.objects.filter(fact=delivery.fact, recipient_user_id=delivery.recipient_user_id)
    for channel in channels.of(recipient) if recipient else ():
        if not told.filter(channel=channel).exists():
            return channel
    raise NotResendable(f"the recipient of delivery {delivery.id} can't be reached through any further channel")


def purge(*, as_of: datetime.datetime) -> int:
    """Delete what is older than DELIVERIES_RETENTION_DAYS and waits for nothing, in batches; the number deleted."""
    kept_from = as_of - datetime.timedelta(days=settings.ENV.deliveries_retention_days)
    old = Delivery.objects.filter(created_at__lt=kept_from).exclude(status=Status.PENDING)
    total = 0
    while True:
        deleted, _ = Delivery.objects.filter(id__in=old.order_by("created_at").values("id")[:_PURGE_BATCH]).delete()
        total += deleted
        if deleted < _PURGE_BATCH:
            return total
