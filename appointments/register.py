"""Reading appointments: a client's own, an owner's in their tenant, to a tenant admin the tenant's."""

import datetime
from collections.abc import Sequence
from enum import StrEnum
from uuid import UUID

from django.db.models import Q

from api.paging import Page, Place, behind, merged_page
from appointments.models import Appointment, AppointmentStatus
from core.actors import Actor
from core.errors import NotFound


class Order(StrEnum):
    """By the meeting's start, or Pending ones by their deadline."""

    START = "startAt"
    DEADLINE = "pendingExpiresAt"


_INSTANT = {Order.START: "calendar_event__start_at", Order.DEADLINE: "pending_expires_at"}


def page_for(
    actor: Actor,
    *,
    limit: int,
    after: Place | None = None,
    from_at: datetime.datetime | None = None,
    to_at: datetime.datetime | None = None,
    statuses: Sequence[str] = (),
    sort: str = Order.START,
) -> Page[Appointment]:
    """The person's appointments that start from … to (exclusive), in that order; by deadline only Pending ones."""
    order = Order(sort)
    chosen = Q()
    if from_at is not None:
        chosen &= Q(calendar_event__start_at__gte=from_at)
    if to_at is not None:
        chosen &= Q(calendar_event__start_at__lt=to_at)
    if statuses:
        chosen &= Q(status__in=statuses)
    if order is Order.DEADLINE:
        chosen &= Q(status=AppointmentStatus.PENDING)
    # In the event's order the conditions are the event's too, since its indexes hold person and start together.
    prefix = "calendar_event__" if order is Order.START else ""
    if after is not None:
        chosen &= behind(after, instant=_INSTANT[order], id_=f"{prefix}id")
    lists = [
        list(
            Appointment.objects.select_related("slot", "calendar_event")
            .filter(part, chosen)
            .order_by(_INSTANT[order], f"{prefix}id")[: limit + 1]
        )
        for part in _visible(actor, prefix=prefix)
    ]
    return merged_page(lists, limit=limit, place=_place_by_start if order is Order.START else _place_by_deadline)


def find(appointment_id: UUID, *, actor: Actor) -> Appointment:
    """The person's appointment with its slot and event. Raises NotFound, also for a stranger."""
    visible = Q()
    for part in _visible(actor):
        visible |= part
    appointment = (
        Appointment.objects.select_related("slot", "calendar_event").filter(visible, id=appointment_id).first()
    )
    if appointment is None:
        raise NotFound(f"there is no appointment {appointment_id}")
    return appointment


def _visible(actor: Actor, *, prefix: str = "") -> list[Q]:
    return [actor.received(prefix=prefix), actor.owned(prefix=prefix)]


def _place_by_start(appointment: Appointment) -> Place:
    return Place(appointment.calendar_event.start_at, appointment.calendar_event_id)


def _place_by_deadline(appointment: Appointment) -> Place:
    deadline = appointment.pending_expires_at
    if deadline is None:
        raise ValueError(f"appointment {appointment.id} has no deadline to be sorted by")
    return Place(deadline, appointment.id)
