"""Who can be told, and what was told to whom: the only personal data in the system, kept out of every log."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from core.ids import new_id
from core.indexes import Index


class Locale(models.TextChoices):
    RU = "ru", "Русский"
    EN = "en", "English"


class Channel(models.TextChoices):
    EMAIL = "email", "e-mail"


class Role(models.TextChoices):
    OWNER = "owner"
    CLIENT = "client"
    PREVIOUS_OWNER = "previous_owner"


class Kind(models.TextChoices):
    """What a text is about; each has a template in each language."""

    APPOINTMENT_REMINDER = "AppointmentReminder"
    CALENDAR_REMINDER = "CalendarReminder"
    APPOINTMENT_BOOKED = "AppointmentBooked"
    APPOINTMENT_CONFIRMED = "AppointmentConfirmed"
    APPOINTMENT_RESCHEDULED = "AppointmentRescheduled"
    APPOINTMENT_REASSIGNED = "AppointmentReassigned"
    APPOINTMENT_EXPIRED = "AppointmentExpired"
    APPOINTMENT_DECLINED = "AppointmentDeclined"
    APPOINTMENT_CANCELLED_BY_CLIENT = "AppointmentCancelledByClient"
    APPOINTMENT_CANCELLED_BY_OWNER = "AppointmentCancelledByOwner"
    EVENT_CANCELLED = "EventCancelled"
    EVENT_COMPLETED = "EventCompleted"


class Status(models.TextChoices):
    PENDING = "pending"
    SENT = "sent"
    PARKED = "parked"
    NO_CHANNEL = "no_channel"
    INACTIVE = "inactive"
    STALE = "stale"


def _default_channels() -> list[str]:
    return [Channel.EMAIL.value]


class Recipient(models.Model):
    """A person of the platform, by the platform's id."""

    user_id = models.UUIDField(primary_key=True)
    email = models.EmailField("e-mail", blank=True)
    locale = models.CharField(max_length=2, choices=Locale.choices, default=Locale.RU)
    channels = ArrayField(
        models.CharField(max_length=16, choices=Channel.choices), default=_default_channels, blank=True
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        db_table = "recipients"
        constraints = [
            models.CheckConstraint(condition=Q(locale__in=Locale.values), name="ck_recipients_locale"),
            models.CheckConstraint(condition=Q(channels__contained_by=Channel.values), name="ck_recipients_channels"),
        ]

    def __str__(self) -> str:
        return f"recipient {self.user_id}"


class Delivery(models.Model):
    """One fact told to one person through one channel; `channel` is empty when there was none."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    fact = models.TextField(help_text="identity of what is told: topic and subject of the message")
    message_id = models.UUIDField()
    topic = models.TextField()
    payload = models.TextField(help_text="the message")
    subject_id = models.UUIDField(help_text="appointment, else event")
    kind = models.CharField(max_length=40, choices=Kind.choices)
    role = models.CharField(max_length=16, choices=Role.choices)
    recipient_user_id = models.UUIDField()
    channel = models.CharField(max_length=16, choices=Channel.choices, blank=True)
    status = models.CharField(max_length=16, choices=Status.choices)
    attempts = models.IntegerField(default=0)
    next_attempt_at = models.DateTimeField(help_text="also the end of the lease of who sends it now")
    error = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    correlation_id = models.UUIDField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "deliveries"
        verbose_name_plural = "deliveries"
        indexes = [
            Index(
                F("next_attempt_at"),
                F("id"),
                name="ix_deliveries_pending_next_attempt_at",
                condition=Q(status=Status.PENDING),
            ),
            Index(F("id"), name="ix_deliveries_parked", condition=Q(status=Status.PARKED)),
            Index(F("subject_id"), name="ix_deliveries_subject_id"),
            Index(F("recipient_user_id"), name="ix_deliveries_recipient_user_id"),
            Index(F("created_at"), name="ix_deliveries_created_at"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["fact", "recipient_user_id", "channel"], name="uq_deliveries_fact_recipient_channel"
            ),
            models.CheckConstraint(condition=Q(status__in=Status.values), name="ck_deliveries_status"),
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="ck_deliveries_kind"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="ck_deliveries_role"),
            models.CheckConstraint(
                condition=Q(status=Status.SENT, sent_at__isnull=False)
                | (~Q(status=Status.SENT) & Q(sent_at__isnull=True)),
                name="ck_deliveries_sent_at_exactly_when_sent",
            ),
            models.CheckConstraint(
                condition=~Q(channel="") | Q(status__in=[Status.NO_CHANNEL, Status.INACTIVE, Status.STALE]),
                name="ck_deliveries_sent_through_a_channel",
            ),
        ]

    def __str__(self) -> str:
        return f"delivery {self.id} ({self.status})"
