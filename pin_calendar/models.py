"""Availability slots and calendar events. Operators query these tables by hand, so every name is explicit."""

import datetime

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q

from core import clock
from core.constraints import readable_instants
from core.errors import InvalidField
from core.ids import new_id
from core.indexes import Index

MAX_TEXT = 500
DEFAULT_LEAD_TIME_MINUTES = 60
DEFAULT_OFFSETS_MINUTES = (1_440, 60)


def refuse_bad_text(field: str, text: str) -> None:
    """Raises InvalidField for a text that is too long, holds a NUL character or is no Unicode text."""
    if len(text) > MAX_TEXT:
        raise InvalidField(field, f"must have at most {MAX_TEXT} characters, has {len(text)}")
    if "\x00" in text:
        raise InvalidField(field, "must not contain a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidField(field, "must not contain half of a surrogate pair")


def in_utc(field: str, instant: datetime.datetime) -> datetime.datetime:
    """The instant as it is stored. Raises InvalidField for years that are a slip."""
    if instant.year not in clock.YEARS:
        raise InvalidField(field, clock.OTHER_YEARS)
    return instant.astimezone(datetime.UTC)


class SlotStatus(models.TextChoices):
    AVAILABLE = "Available"
    BOOKED = "Booked"
    EXPIRED = "Expired"
    WITHDRAWN = "Withdrawn"


LIVE_SLOT = (SlotStatus.AVAILABLE, SlotStatus.BOOKED)


class EventStatus(models.TextChoices):
    SCHEDULED = "Scheduled"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class EventOrigin(models.TextChoices):
    MANUAL = "Manual"
    APPOINTMENT = "Appointment"
    CRM_DEADLINE = "CrmDeadline"


class TsTzRange(Func):
    function = "TSTZRANGE"
    output_field = DateTimeRangeField()


class OffsetsAreValid(Func):
    """0 to 8 different values of 0..40320 minutes; a function of the first migration, as a CHECK can hold no query."""

    function = "calendar_offsets_are_valid"
    output_field = models.BooleanField()


class AvailabilitySlot(models.Model):
    """A window in which its owner can be met, bookable until `min_lead_time_minutes` before its start."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    owner_user_id = models.UUIDField()
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    time_zone = models.CharField(max_length=64)
    min_lead_time_minutes = models.IntegerField(default=DEFAULT_LEAD_TIME_MINUTES)
    auto_confirm = models.BooleanField(default=False)
    status = models.CharField(max_length=16, choices=SlotStatus.choices, default=SlotStatus.AVAILABLE)
    version = models.IntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "availability_slots"
        permissions = [("withdraw_availabilityslot", "Can withdraw slots in their owners' names")]
        indexes = [
            Index(
                F("start_at"), F("id"), name="ix_availability_slots_showcase", condition=Q(status=SlotStatus.AVAILABLE)
            ),
            Index(F("owner_user_id"), F("start_at"), name="ix_availability_slots_owner_start_at"),
            Index(F("tenant_id"), F("start_at"), F("id"), name="ix_availability_slots_tenant_start_at"),
        ]
        constraints = [
            ExclusionConstraint(
                name="ex_availability_slots_owner_live_overlap",
                expressions=[
                    ("owner_user_id", RangeOperators.EQUAL),
                    (TsTzRange("start_at", "end_at", RangeBoundary()), RangeOperators.OVERLAPS),
                ],
                condition=Q(status__in=LIVE_SLOT),
            ),
            models.CheckConstraint(condition=Q(end_at__gt=F("start_at")), name="ck_availability_slots_end_after_start"),
            models.CheckConstraint(condition=Q(status__in=SlotStatus.values), name="ck_availability_slots_status"),
            models.CheckConstraint(
                condition=Q(min_lead_time_minutes__gte=0), name="ck_availability_slots_min_lead_time_minutes"
            ),
            readable_instants("start_at", "end_at", name="ck_availability_slots_readable_instants"),
            models.CheckConstraint(condition=Q(version__gte=1), name="ck_availability_slots_version"),
        ]

    def __str__(self) -> str:
        return f"slot {self.id} ({self.status})"


def _default_offsets() -> list[int]:
    return list(DEFAULT_OFFSETS_MINUTES)


class CalendarEvent(models.Model):
    """What stands in an owner's calendar. One of an appointment changes only with its appointment (INV-CAL-3)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    owner_user_id = models.UUIDField()
    client_user_id = models.UUIDField(null=True, blank=True)
    origin = models.CharField(max_length=16, choices=EventOrigin.choices)
    source_id = models.UUIDField(null=True, blank=True)
    title = models.CharField(max_length=MAX_TEXT, blank=True)
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    time_zone = models.CharField(max_length=64)
    reminder_offsets_minutes = ArrayField(models.IntegerField(), default=_default_offsets, blank=True)
    status = models.CharField(max_length=16, choices=EventStatus.choices, default=EventStatus.SCHEDULED)
    cancel_reason = models.CharField(max_length=MAX_TEXT, blank=True)
    version = models.IntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "calendar_events"
        permissions = [("finish_calendarevent", "Can complete and cancel manual events in their owners' names")]
        indexes = [
            Index(F("owner_user_id"), F("start_at"), name="ix_calendar_events_owner_start_at"),
            Index(F("client_user_id"), F("start_at"), name="ix_calendar_events_client_start_at"),
            Index(F("tenant_id"), F("start_at"), F("id"), name="ix_calendar_events_tenant_start_at"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "origin", "source_id"],
                condition=Q(status=EventStatus.SCHEDULED),
                name="uq_calendar_events_one_scheduled_a_source",
            ),
            models.CheckConstraint(
                condition=Q(end_at__gte=F("start_at")), name="ck_calendar_events_end_not_before_start"
            ),
            models.CheckConstraint(condition=Q(status__in=EventStatus.values), name="ck_calendar_events_status"),
            models.CheckConstraint(condition=Q(origin__in=EventOrigin.values), name="ck_calendar_events_origin"),
            models.CheckConstraint(
                condition=Q(origin=EventOrigin.MANUAL) | Q(source_id__isnull=False), name="ck_calendar_events_source_id"
            ),
            models.CheckConstraint(
                condition=OffsetsAreValid("reminder_offsets_minutes"),
                name="ck_calendar_events_reminder_offsets_minutes",
            ),
            readable_instants("start_at", "end_at", name="ck_calendar_events_readable_instants"),
            models.CheckConstraint(condition=Q(version__gte=1), name="ck_calendar_events_version"),
        ]

    def __str__(self) -> str:
        return f"event {self.id} ({self.status})"
