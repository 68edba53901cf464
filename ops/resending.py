"""Sending a delivery again, by hand: notifications know no audit log, so its line is written here."""

import datetime

from django.db import transaction

from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from core.actors import Actor
from notifications import deliveries
from notifications.models import Delivery


@transaction.atomic(durable=True)
def resend(
    delivery: Delivery, *, actor: Actor, by: str, as_of: datetime.datetime, seen_version: str | None = None
) -> Delivery:
    """The delivery, due at once. Raises NotFound, VersionConflict, NotResendable."""
    resent = deliveries.resend(delivery.id, by=by, as_of=as_of, seen_version=seen_version)
    line = Line(Aggregate.DELIVERY, resent.id, resent.tenant_id, "resend", delivery.status, resent.status)
    audit_log.record([line], actor=actor, as_of=as_of)
    return resent
