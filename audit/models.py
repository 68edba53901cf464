"""Who did what to which aggregate, when: one line a transition or intervention, appended and never changed."""

from django.db import models

from core.actors import ActorKind
from core.ids import new_id
from core.indexes import Index


class Aggregate(models.TextChoices):
    APPOINTMENT = "Appointment"
    SLOT = "Slot"
    EVENT = "Event"
    MESSAGE = "Message"  # of the outbox, by its message_id
    CONFLICT = "Conflict"  # of a reassignment
    DELIVERY = "Delivery"  # of a notification
    FEED = "Feed"  # a person's calendar address


class AuditLine(models.Model):
    """A transition of one aggregate. `from_status` is empty for a creation."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    aggregate = models.CharField(max_length=16, choices=Aggregate.choices)
    aggregate_id = models.UUIDField()
    verb = models.CharField(max_length=32)
    from_status = models.CharField(max_length=16, blank=True)
    to_status = models.CharField(max_length=16)
    actor_kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in ActorKind])
    actor_user_id = models.UUIDField(null=True, blank=True)
    correlation_id = models.UUIDField()
    occurred_at = models.DateTimeField()

    class Meta:
        db_table = "audit_log"
        indexes = [
            Index(fields=["aggregate_id", "occurred_at"], name="ix_audit_log_aggregate_id"),
            Index(fields=["correlation_id"], name="ix_audit_log_correlation_id"),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(aggregate__in=Aggregate.values), name="ck_audit_log_aggregate"),
            models.CheckConstraint(
                condition=models.Q(actor_kind__in=[kind.value for kind in ActorKind]), name="ck_audit_log_actor_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.aggregate} {self.aggregate_id}: {self.verb}"
