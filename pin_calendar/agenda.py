"""Reading events: those that an owner has, and those of which a person is the client."""

import datetime
from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q, QuerySet

from api.paging import Page, Place, behind, merged_page
from core.actors import Actor
from core.errors import NotFound
from pin_calendar.models import CalendarEvent
from reminders import schedule


def page_for(
    actor: Actor,
    *,
    as_owner: bool,
    limit: int,
    after: Place | None = None,
    from_at: datetime.datetime | None = None,
    to_at: datetime.datetime | None = None,
    statuses: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> Page[CalendarEvent]:
    """The person's events in the order of their start; `as_owner` adds what they own, or an admin's whole tenant."""
    chosen = Q()
    if from_at is not None:
        chosen &= Q(start_at__gte=from_at)
    if to_at is not None:
        chosen &= Q(start_at__lt=to_at)
    if statuses:
        chosen &= Q(status__in=statuses)
    if origins:
        chosen &= Q(origin__in=origins)
    if after is not None:
        chosen &= behind(after, instant="start_at")
    # One query a part, merged here: no index serves "owner or client" in the order of start.
    lists = [
        list(part.filter(chosen).order_by("start_at", "id")[: limit + 1]) for part in _parts(actor, as_owner=as_owner)
    ]
    return merged_page(lists, limit=limit, place=lambda event: Place(event.start_at, event.id))


def find(event_id: UUID, *, actor: Actor, as_owner: bool) -> CalendarEvent:
    """The person's event. Raises NotFound, also for a stranger."""
    visible = Q()
    for part in _visible(actor, as_owner=as_owner):
        visible |= part
    event = CalendarEvent.objects.filter(visible, id=event_id).first()
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    return event


def is_silent(event: CalendarEvent, *, as_of: datetime.datetime) -> bool:
    """Whether no reminder will be sent although some are wanted: all of their moments are past."""
    offsets = tuple(event.reminder_offsets_minutes)
    return schedule.is_silent(schedule.Timetable(event.id, event.start_at, offsets), as_of=as_of)


def _parts(actor: Actor, *, as_owner: bool) -> list[QuerySet[CalendarEvent]]:
    return [CalendarEvent.objects.filter(part) for part in _visible(actor, as_owner=as_owner)]


def _visible(actor: Actor, *, as_owner: bool) -> list[Q]:
    return [actor.received(), actor.owned()] if as_owner else [actor.received()]
