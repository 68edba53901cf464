"""Reading slots: the showcase that anyone sees, and what an owner has published."""

import datetime
from collections.abc import Sequence
from uuid import UUID

from django.db.models import DateTimeField, DurationField, F, Func, QuerySet

from api.paging import Page, Place, behind, page
from core.actors import Actor
from core.errors import NotFound
from pin_calendar.models import AvailabilitySlot, SlotStatus


class _BookableUntil(Func):
    """start_at − lead time."""

    template = "(%(expressions)s)"
    arg_joiner = " - "
    output_field = DateTimeField()

    def __init__(self) -> None:
        minutes = Func(
            F("min_lead_time_minutes"), template="make_interval(mins => %(expressions)s)", output_field=DurationField()
        )
        super().__init__(F("start_at"), minutes)


def bookable(
    *,
    as_of: datetime.datetime,
    limit: int,
    after: Place | None = None,
    from_at: datetime.datetime | None = None,
    to_at: datetime.datetime | None = None,
    owner_id: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Page[AvailabilitySlot]:
    """Available slots that can still be booked, of every tenant, in the order of their start."""
    found = AvailabilitySlot.objects.alias(bookable_until=_BookableUntil()).filter(
        status=SlotStatus.AVAILABLE, start_at__gte=max(from_at or as_of, as_of), bookable_until__gte=as_of
    )
    return _page(found, limit=limit, after=after, to_at=to_at, owner_id=owner_id, tenant_id=tenant_id)


def published_by(
    actor: Actor,
    *,
    limit: int,
    after: Place | None = None,
    from_at: datetime.datetime | None = None,
    to_at: datetime.datetime | None = None,
    owner_id: UUID | None = None,
    statuses: Sequence[str] = (),
) -> Page[AvailabilitySlot]:
    """The owner's slots in whatever state, in the order of their start; to a tenant admin the tenant's."""
    found = _own(actor)
    if from_at is not None:
        found = found.filter(start_at__gte=from_at)
    if statuses:
        found = found.filter(status__in=statuses)
    return _page(found, limit=limit, after=after, to_at=to_at, owner_id=owner_id, tenant_id=None)


def find(slot_id: UUID, *, actor: Actor) -> AvailabilitySlot:
    """The owner's slot. Raises NotFound, also for a stranger."""
    slot = _own(actor).filter(id=slot_id).first()
    if slot is None:
        raise NotFound(f"there is no slot {slot_id}")
    return slot


def find_all(slot_ids: Sequence[UUID], *, actor: Actor) -> list[AvailabilitySlot]:
    """Those of these slots that are the owner's, in the order of their start."""
    return list(_own(actor).filter(id__in=slot_ids).order_by("start_at", "id"))


def _own(actor: Actor) -> QuerySet[AvailabilitySlot]:
    return AvailabilitySlot.objects.filter(actor.owned())


def _page(
    found: QuerySet[AvailabilitySlot],
    *,
    limit: int,
    after: Place | None,
    to_at: datetime.datetime | None,
    owner_id: UUID | None,
    tenant_id: UUID | None,
) -> Page[AvailabilitySlot]:
    if to_at is not None:
        found = found.filter(start_at__lt=to_at)
    if owner_id is not None:
        found = found.filter(owner_user_id=owner_id)
    if tenant_id is not None:
        found = found.filter(tenant_id=tenant_id)
    if after is not None:
        found = found.filter(behind(after, instant="start_at"))
    slots = list(found.order_by("start_at", "id")[: limit + 1])
    return page(slots, limit=limit, place=lambda slot: Place(slot.start_at, slot.id))
