"""What people and time do with deliveries: send again what was not sent, forget what is old."""

import datetime
from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from django.db import transaction

from core import logs
from notifications import channels
from notifications.models import Delivery, Recipient, Status

log = logs.get(__name__)

_PURGE_BATCH = 5_000
UNSENT = (Status.PARKED, Status.NO_CHANNEL, Status.INACTIVE)


@transaction.atomic
def resend(delivery_ids: Iterable[UUID], *, by: str, as_of: datetime.datetime) -> list[Delivery]:
    """Make deliveries that were not sent due at once; those of them that can be.

    One that had no channel gets the recipient's first, if there is one now and nobody was told through it.
    """
    chosen = Delivery.objects.select_for_update().filter(id__in=list(delivery_ids), status__in=UNSENT)
    known = Recipient.objects.in_bulk([delivery.recipient_user_id for delivery in chosen])
    resent = []
    for delivery in chosen:
        recipient = known.get(delivery.recipient_user_id)
        if recipient is None or not recipient.is_active:
            continue
        delivery.channel = delivery.channel or next(iter(channels.of(recipient)), "")
        others = Delivery.objects.filter(
            fact=delivery.fact, recipient_user_id=delivery.recipient_user_id, channel=delivery.channel
        )
        if not delivery.channel or others.exclude(id=delivery.id).exists():
            continue
        delivery.status, delivery.attempts, delivery.error = Status.PENDING, 0, ""
        delivery.next_attempt_at = delivery.updated_at = as_of
        delivery.save()
        resent.append(delivery)
    log.warning("deliveries resent", by=by, delivery_ids=[str(delivery.id) for delivery in resent])
    return resent


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
