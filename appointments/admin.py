"""Requests in the back office: decided as the owner would, by the matrix; nothing is typed over."""

import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from appointments import conflicts, decisions, feeds, matrix, reassignment
from appointments.matrix import Party, Verb, When
from appointments.models import LIVE, Appointment, AppointmentStatus, CalendarFeed, ReassignmentConflict
from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.interventions import Confirmation, Intervention, Order, WithReason
from backoffice.records import RecordAdmin
from core.errors import refuse_stale

HOUR = datetime.timedelta(hours=1)


class WithReasonOrNone(WithReason):
    """Of a decision, which has a sentence of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].help_text += " The usual sentence is used when it is empty."


def _decision(
    verb: Verb, label: str, consequence: str, *, asks_why: bool = False, is_grave: bool = False
) -> Intervention:
    def carry_out(appointment: Appointment, order: Order) -> str:
        change = decisions.change(
            appointment.id,
            verb,
            actor=order.actor,
            as_of=order.as_of,
            reason=order.values.get("reason", ""),
            seen_version=order.seen_version,
        )
        return f"Appointment {appointment.id} is {change.after.status}"

    def is_offered(appointment: Appointment, as_of: datetime.datetime) -> bool:
        row = matrix.find(verb, Party.OWNER, AppointmentStatus(appointment.status), auto_confirm=False)
        return row is not None and (row.when is When.FROM_START) == (as_of >= appointment.slot.start_at)

    return Intervention(
        name=verb.value.replace("_", "-"),
        label=label,
        consequence=consequence,
        permission="appointments.decide_appointment",
        carry_out=carry_out,
        is_offered=is_offered,
        form=WithReasonOrNone if asks_why else Confirmation,
        is_grave=is_grave,
    )


class NewOwner(Confirmation):
    to_owner_id = forms.UUIDField(label="New owner", help_text="The id of another agent or consultant of this tenant.")


def _hand_over(appointment: Appointment, order: Order) -> str:
    refuse_stale(f"appointment {appointment.id}", version=appointment.version, seen=order.seen_version)
    done = reassignment.reassign(
        tenant_id=appointment.tenant_id,
        from_owner_id=appointment.owner_user_id,
        to_owner_id=order.values["to_owner_id"],
        actor=order.actor,
        as_of=order.as_of,
    )
    deadlines = len(done.event_ids) - len(done.appointment_ids)
    return (
        f"{len(done.appointment_ids)} appointments and {deadlines} CRM deadlines of owner {appointment.owner_user_id} "
        f"moved to {order.values['to_owner_id']}"
    )


REASSIGN = Intervention(
    name="reassign",
    label="Reassign owner",
    consequence=(
        "Everything that this owner has open in this tenant (live appointments with their slots, CRM deadlines) moves "
        "to another owner, this appointment with it. It is all refused when a slot overlaps one of theirs."
    ),
    permission="appointments.reassign_appointment",
    carry_out=_hand_over,
    is_offered=lambda appointment, as_of: appointment.status in LIVE and appointment.slot.end_at > as_of,
    form=NewOwner,
)

# fmt: off
DECISIONS = (
    _decision(Verb.CONFIRM, "Confirm", "The request is confirmed as if its owner had done so. Its slot stays Booked."),
    _decision(Verb.DECLINE, "Decline", "The request is declined in its owner's name. Its slot is free again while it "
              "can still be booked, the event is cancelled, no reminder goes out.", asks_why=True, is_grave=True),
    _decision(Verb.CANCEL, "Cancel", "The appointment is cancelled in its owner's name. Its slot is free again while "
              "it can still be booked, the event is cancelled, no reminder goes out.", asks_why=True, is_grave=True),
    _decision(Verb.COMPLETE, "Complete", "The meeting took place. This is final."),
    _decision(Verb.NO_SHOW, "No-show", "The client did not come. This is final.", is_grave=True),
)
# fmt: on


def _resolve(conflict: ReassignmentConflict, order: Order) -> str:
    conflicts.resolve(conflict.id, actor=order.actor, as_of=order.as_of)
    return f"Conflict {conflict.id} is resolved"


RESOLVE = Intervention(
    name="resolve",
    label="Resolve",
    consequence=(
        "You have dealt with this appointment: moved it, cancelled it, or agreed that it stays. The conflict is "
        "closed; the appointment itself is not touched."
    ),
    permission="appointments.resolve_reassignmentconflict",
    carry_out=_resolve,
    is_offered=lambda conflict, _as_of: conflict.resolved_at is None,
    version_of=lambda conflict: str(conflict.id),
)


def _revoke(feed: CalendarFeed, order: Order) -> str:
    feeds.revoke_for(feed.id, actor=order.actor, as_of=order.as_of, seen_token_of=order.seen)
    return f"Calendar feed {feed.id} is revoked"


REVOKE = Intervention(
    name="revoke",
    label="Revoke",
    consequence=(
        "The secret address of this calendar is good no more: every program that reads it gets nothing. The person "
        "can ask for a new address at any time."
    ),
    permission="appointments.revoke_calendarfeed",
    carry_out=_revoke,
    is_offered=lambda feed, _as_of: feed.revoked_at is None,
    version_of=lambda feed: feed.token_of,
    is_grave=True,
)


def _overdue(rows: Any, as_of: datetime.datetime) -> Rows:
    late: Rows = rows.overdue(as_of)
    return late


def _lapsing(rows: Rows, as_of: datetime.datetime) -> Rows:
    soon = Q(pending_expires_at__gte=as_of, pending_expires_at__lt=as_of + HOUR)
    return rows.filter(soon, status=AppointmentStatus.PENDING).order_by("pending_expires_at", "id")


def _in_conflict(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(id__in=ReassignmentConflict.objects.open(as_of).order_by().values("appointment_id"))


def _open(rows: Any, as_of: datetime.datetime) -> Rows:
    still_open: Rows = rows.open(as_of)
    return still_open


def _without_outcome(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=AppointmentStatus.CONFIRMED, slot__end_at__lt=as_of)


def _deadline(appointment: Appointment, deadline: datetime.datetime) -> Any:
    is_open = appointment.status == AppointmentStatus.PENDING
    return show.moment(deadline, as_of=appointment.seen_at) if is_open else None  # type: ignore[attr-defined]


@admin.register(Appointment)
class AppointmentAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "appointment"),
        columns.badge("status", "status"),
        columns.instant("slot.start_at", "starts"),
        columns.made("pending_expires_at", "deadline", _deadline),
        columns.short_id("owner_user_id", "owner"),
        columns.short_id("client_user_id", "client"),
        columns.instant("created_at", "requested"),
    )
    list_filter = (
        one_of(
            Question("overdue", "Pending past their deadline", _overdue),
            Question("lapsing", "Lapse within the hour", _lapsing),
            Question("no-outcome", "Confirmed, over, without an outcome", _without_outcome),
            Question("conflict", "Left behind by a reassignment", _in_conflict),
        ),
        "status",
    )
    ids = ("id", "owner_user_id", "client_user_id", "slot_id", "calendar_event_id")
    search_help_text = "An id, whole: of an appointment, its slot or event, an owner or a client"
    interventions = (*DECISIONS, REASSIGN)
    fields = (
        "id",
        "status",
        "pending_expires_at",
        "cancelled_by",
        "cancel_reason",
        "slot",
        "calendar_event",
        "owner_user_id",
        "client_user_id",
        "tenant_id",
        "version",
        "created_at",
        "updated_at",
    )

    def get_queryset(self, request: HttpRequest) -> Rows:
        return super().get_queryset(request).select_related("slot", "calendar_event")

    def heading(self, record: Appointment, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        slot = record.slot
        parts = [show.badge(record.status), show.moment(slot.start_at, as_of=as_of), slot.time_zone]
        if record.status == AppointmentStatus.PENDING and record.pending_expires_at:
            late = record.pending_expires_at < as_of
            away = show.distance(record.pending_expires_at - as_of)
            parts.append(f"should have lapsed {away} ago" if late else f"lapses in {away}")
        return tuple(parts)


@admin.register(ReassignmentConflict)
class ReassignmentConflictAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "conflict"),
        columns.made("id", "state", lambda conflict, _id: show.badge(conflict.state(conflict.seen_at))),
        columns.link("appointment_id", "appointment", to="appointments.appointment"),
        columns.short_id("from_owner_user_id", "from owner"),
        columns.short_id("to_owner_user_id", "to owner"),
        columns.instant("created_at", "since"),
    )
    list_filter = (one_of(Question("open", "To be decided, oldest first", _open)),)
    list_select_related = ("appointment__slot",)
    ids = ("id", "appointment_id")
    interventions = (RESOLVE,)

    def heading(self, record: ReassignmentConflict, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            show.badge(record.state(as_of)),
            show.link("appointments.appointment", record.appointment_id, "its appointment"),
            show.moment(record.created_at, as_of=as_of),
        )


@admin.register(CalendarFeed)
class CalendarFeedAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "feed"),
        columns.made("id", "state", lambda feed, _id: show.badge("Revoked" if feed.revoked_at else "Live")),
        columns.short_id("user_id", "person"),
        columns.short_id("tenant_id", "tenant"),
        columns.instant("created_at", "since"),
    )
    ids = ("id", "user_id")
    search_help_text = "An id, whole: of a feed or a person"
    interventions = (REVOKE,)
    fields = ("id", "user_id", "tenant_id", "shows_owned", "created_at", "revoked_at")

    def heading(self, record: CalendarFeed, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            show.badge("Revoked" if record.revoked_at else "Live"),
            show.moment(record.created_at, as_of=as_of),
        )
