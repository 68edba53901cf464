"""What the CRM told, as far as it was applied, and what its leads are told in turn."""

from django.db import models
from django.db.models import F, Q

from contracts.crm import DeadlineState
from core.ids import new_id
from core.indexes import Index
from pin_calendar.models import CalendarEvent

_STATES = [(state.value, state.value) for state in DeadlineState]


class LeadEvent(models.TextChoices):
    """What a line of the lead feed tells; the label is its text."""

    BOOKED = "Booked", "клиент записался на встречу"
    CONFIRMED = "Confirmed", "агент подтвердил запись"
    EXPIRED = "Expired", "запись истекла без решения агента"
    DECLINED = "Declined", "агент отклонил запись"
    CANCELLED_BY_CLIENT = "CancelledByClient", "клиент отменил запись"
    CANCELLED_BY_OWNER = "CancelledByOwner", "агент отменил запись"
    COMPLETED = "Completed", "встреча состоялась"
    NO_SHOW = "NoShow", "клиент не пришёл на встречу"


class Deadline(models.Model):
    """A booking's deadline as of the newest revision that came; its event is the one that follows it now, or last did.

    `owner_user_id` is whom the CRM named: after a reassignment the event may be another's.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    booking_id = models.UUIDField()
    revision = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=_STATES)
    owner_user_id = models.UUIDField()
    event = models.ForeignKey(
        CalendarEvent, models.PROTECT, related_name="crm_deadlines", null=True, blank=True, db_index=False
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "crm_deadlines"
        indexes = [Index(F("event_id"), name="ix_crm_deadlines_event_id")]
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "booking_id"], name="uq_crm_deadlines_tenant_booking"),
            models.CheckConstraint(condition=Q(state__in=list(DeadlineState)), name="ck_crm_deadlines_state"),
            models.CheckConstraint(condition=Q(revision__gte=1), name="ck_crm_deadlines_revision"),
        ]

    def __str__(self) -> str:
        return f"deadline of booking {self.booking_id} ({self.state})"


class AssigneeChange(models.Model):
    """A change of assignee that came, and what it moved."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    revision = models.BigIntegerField()
    from_owner_user_id = models.UUIDField()
    to_owner_user_id = models.UUIDField()
    moved_appointments = models.IntegerField()
    moved_events = models.IntegerField()
    conflicts = models.IntegerField(help_text="appointments that stayed")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "crm_assignee_changes"
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "revision"], name="uq_crm_assignee_changes_tenant_revision"),
            models.CheckConstraint(condition=Q(revision__gte=1), name="ck_crm_assignee_changes_revision"),
        ]

    def __str__(self) -> str:
        return f"change of assignee {self.revision} of tenant {self.tenant_id}"


class LeadFeedEntry(models.Model):
    """One line for the client's lead; the feed's order is that of `Meta.ordering`, whatever came first."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    client_user_id = models.UUIDField()
    owner_user_id = models.UUIDField()
    appointment_id = models.UUIDField()
    fact = models.TextField(help_text="identity of what is told: topic and subject of the message")
    event = models.CharField(max_length=32, choices=LeadEvent.choices)
    text = models.TextField()
    occurred_at = models.DateTimeField()
    aggregate_version = models.IntegerField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = "lead_feed_entries"
        verbose_name_plural = "lead feed entries"
        # A booking that is confirmed at once is both at one instant and in one version: Booked, then Confirmed.
        ordering = ["occurred_at", "aggregate_version", "event"]
        indexes = [
            Index(
                F("tenant_id"),
                F("client_user_id"),
                F("occurred_at"),
                F("aggregate_version"),
                name="ix_lead_feed_entries_lead",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["fact"], name="uq_lead_feed_entries_fact"),
            models.CheckConstraint(condition=Q(event__in=LeadEvent.values), name="ck_lead_feed_entries_event"),
        ]

    def __str__(self) -> str:
        return f"{self.event} of appointment {self.appointment_id}"
