"""The moments at which an event reminds the people concerned (UC-CAL-008)."""

from django.db import models
from django.db.models import F, Q

from core.constraints import readable_instants
from core.ids import new_id
from core.indexes import Index


class ReminderStatus(models.TextChoices):
    PENDING = "Pending"
    SENT = "Sent"
    SKIPPED = "Skipped"


class SkipReason(models.TextChoices):
    PAST = "past"
    EVENT_CANCELLED = "event_cancelled"
    EVENT_COMPLETED = "event_completed"
    EVENT_OVER = "event_over"


MAX_OFFSET_MINUTES = 40_320  # four weeks


class EventReminder(models.Model):
    """One offset of one event, materialised. The tenant is the event's; the event is locked before its reminders."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    event = models.ForeignKey("pin_calendar.CalendarEvent", models.PROTECT, related_name="reminders", db_index=False)
    offset_minutes = models.IntegerField()
    due_at = models.DateTimeField()
    status = models.CharField(max_length=16, choices=ReminderStatus.choices)
    sent_at = models.DateTimeField(null=True, blank=True)
    skip_reason = models.CharField(max_length=16, choices=SkipReason.choices, null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "event_reminders"
        indexes = [
            Index(
                F("due_at"),
                F("id"),
                name="ix_event_reminders_pending_due_at",
                condition=Q(status=ReminderStatus.PENDING),
            ),
            Index(F("event_id"), name="ix_event_reminders_event_id"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event", "offset_minutes"],
                condition=Q(status=ReminderStatus.PENDING),
                name="uq_event_reminders_one_pending_an_offset",
            ),
            models.CheckConstraint(condition=Q(status__in=ReminderStatus.values), name="ck_event_reminders_status"),
            models.CheckConstraint(
                condition=Q(status=ReminderStatus.SENT, sent_at__isnull=False)
                | (~Q(status=ReminderStatus.SENT) & Q(sent_at__isnull=True)),
                name="ck_event_reminders_sent_at_exactly_when_sent",
            ),
            models.CheckConstraint(
                condition=Q(status=ReminderStatus.SKIPPED, skip_reason__in=SkipReason.values, skip_reason__isnull=False)
                | (~Q(status=ReminderStatus.SKIPPED) & Q(skip_reason__isnull=True)),
                name="ck_event_reminders_skip_reason_exactly_when_skipped",
            ),
            models.CheckConstraint(
                condition=Q(offset_minutes__gte=0, offset_minutes__lte=MAX_OFFSET_MINUTES),
                name="ck_event_reminders_offset_minutes",
            ),
            readable_instants("due_at", name="ck_event_reminders_readable_instants"),
        ]

    def __str__(self) -> str:
        return f"reminder {self.id} ({self.status})"
