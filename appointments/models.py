"""Requests of investors for slots, and what became of them."""

import datetime

from django.db import models
from django.db.models import F, Q

from core.constraints import readable_instants
from core.ids import new_id
from core.indexes import Index
from pin_calendar.models import MAX_TEXT, AvailabilitySlot, CalendarEvent


class AppointmentStatus(models.TextChoices):
    PENDING = "Pending"
    CONFIRMED = "Confirmed"
    DECLINED = "Declined"
    CANCELLED = "Cancelled"
    EXPIRED = "Expired"
    COMPLETED = "Completed"
    NO_SHOW = "NoShow"


LIVE = (AppointmentStatus.PENDING, AppointmentStatus.CONFIRMED)


class CancelledBy(models.TextChoices):
    CLIENT = "Client"
    OWNER = "Owner"


class AppointmentQuerySet(models.QuerySet["Appointment"]):
    def overdue(self, as_of: datetime.datetime) -> "AppointmentQuerySet":
        """Pending past their deadline, strictly, oldest first."""
        return self.filter(status=AppointmentStatus.PENDING, pending_expires_at__lt=as_of).order_by(
            "pending_expires_at", "id"
        )


class Appointment(models.Model):
    """One request. Its status changes only by the matrix (`appointments.matrix`)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    slot = models.ForeignKey(AvailabilitySlot, models.PROTECT, related_name="appointments", db_index=False)
    calendar_event = models.OneToOneField(CalendarEvent, models.PROTECT, related_name="appointment")
    owner_user_id = models.UUIDField()
    client_user_id = models.UUIDField()
    status = models.CharField(max_length=16, choices=AppointmentStatus.choices)
    pending_expires_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.CharField(max_length=16, choices=CancelledBy.choices, null=True, blank=True)  # noqa: DJ001
    cancel_reason = models.CharField(max_length=MAX_TEXT, blank=True)
    version = models.IntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = AppointmentQuerySet.as_manager()

    class Meta:
        db_table = "appointments"
        permissions = [
            ("decide_appointment", "Can decide appointments in their owners' names"),
            ("reassign_appointment", "Can reassign an owner's appointments"),
        ]
        indexes = [
            Index(
                F("pending_expires_at"),
                F("id"),
                name="ix_appointments_pending_expires_at",
                condition=Q(status=AppointmentStatus.PENDING),
            ),
            Index(F("slot_id"), name="ix_appointments_slot_id"),
            Index(F("owner_user_id"), F("created_at"), name="ix_appointments_owner_created_at"),
            Index(F("client_user_id"), F("created_at"), name="ix_appointments_client_created_at"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["slot"], condition=Q(status__in=LIVE), name="uq_appointments_inv_slt_3_one_live_a_slot"
            ),
            models.CheckConstraint(condition=Q(status__in=AppointmentStatus.values), name="ck_appointments_status"),
            models.CheckConstraint(
                condition=~Q(status=AppointmentStatus.PENDING) | Q(pending_expires_at__isnull=False),
                name="ck_appointments_pending_has_deadline",
            ),
            models.CheckConstraint(
                condition=Q(
                    status=AppointmentStatus.CANCELLED,
                    cancelled_by__in=CancelledBy.values,
                    cancelled_by__isnull=False,
                )
                | (~Q(status=AppointmentStatus.CANCELLED) & Q(cancelled_by__isnull=True)),
                name="ck_appointments_cancelled_by_exactly_when_cancelled",
            ),
            readable_instants("pending_expires_at", "created_at", name="ck_appointments_readable_instants"),
            models.CheckConstraint(condition=Q(version__gte=1), name="ck_appointments_version"),
        ]

    def __str__(self) -> str:
        return f"appointment {self.id} ({self.status})"


class ReassignmentConflictQuerySet(models.QuerySet["ReassignmentConflict"]):
    def open(self, as_of: datetime.datetime) -> "ReassignmentConflictQuerySet":
        """Those that somebody must decide: unresolved, of an appointment that is live and not over, oldest first."""
        undecided = self.filter(resolved_at=None, appointment__status__in=LIVE, appointment__slot__end_at__gt=as_of)
        return undecided.order_by("created_at", "id")


class ReassignmentConflict(models.Model):
    """An appointment that a reassignment by the CRM left behind: its slot overlaps one of the new owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    appointment = models.ForeignKey(Appointment, models.PROTECT, related_name="reassignment_conflicts", db_index=False)
    from_owner_user_id = models.UUIDField()
    to_owner_user_id = models.UUIDField()
    correlation_id = models.UUIDField()
    created_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)

    objects = ReassignmentConflictQuerySet.as_manager()

    class Meta:
        db_table = "reassignment_conflicts"
        permissions = [("resolve_reassignmentconflict", "Can resolve conflicts of reassignments")]
        indexes = [
            Index(F("appointment_id"), name="ix_reassignment_conflicts_appointment_id"),
            Index(F("created_at"), name="ix_reassignment_conflicts_open", condition=Q(resolved_at__isnull=True)),
        ]

        constraints = [
            models.UniqueConstraint(
                fields=["appointment", "to_owner_user_id"],
                condition=Q(resolved_at__isnull=True),
                name="uq_reassignment_conflicts_one_open_a_pair",
            )
        ]

    def __str__(self) -> str:
        return f"conflict of appointment {self.appointment_id}"

    def state(self, as_of: datetime.datetime) -> str:
        """Resolved by somebody, Over with its appointment, or still Open."""
        if self.resolved_at:
            return "Resolved"
        is_ahead = self.appointment.status in LIVE and self.appointment.slot.end_at > as_of
        return "Open" if is_ahead else "Over"


class CalendarFeed(models.Model):
    """A person's secret calendar address in a tenant, in none as a client alone; a new one replaces the former."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user_id = models.UUIDField()
    tenant_id = models.UUIDField(null=True, blank=True)
    token_hash = models.CharField(max_length=64)
    shows_owned = models.BooleanField()
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "calendar_feeds"
        permissions = [("revoke_calendarfeed", "Can revoke people's calendar feeds")]
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "tenant_id"], nulls_distinct=False, name="uq_calendar_feeds_one_a_person_and_tenant"
            ),
            models.UniqueConstraint(fields=["token_hash"], name="uq_calendar_feeds_token_hash"),
        ]

    def __str__(self) -> str:
        return f"calendar feed of user {self.user_id}"

    @property
    def token_of(self) -> str:
        """Tells one token of the feed from the next: when it was made."""
        return self.created_at.isoformat()
