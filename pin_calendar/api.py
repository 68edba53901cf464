"""Slots and events over HTTP: each view translates, makes one call, translates back."""

import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from api.bodies import Empty, query, read
from api.endpoint import ANY_TOKEN, ANYONE, Endpoint, operation, principal_of, tenant_of
from api.paging import page_of
from api.preconditions import answer, seen_version
from core import clock
from core.errors import InvalidField, NotFound
from pin_calendar import agenda, bodies, diary, publishing, showcase
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from pin_calendar.weekly import AmbiguousLocalTime, NonexistentLocalTime, Pattern, Window

MANAGE_SLOTS = "calendar.slots.manage"
MANAGE_EVENTS = "calendar.events.manage"

SlotPage = page_of(bodies.SlotOut)
EventPage = page_of(bodies.EventOut)


class Slots(Endpoint):
    @operation("List the showcase", needs=ANYONE, query=bodies.ShowcaseQuery, answers=SlotPage, has_etag=False)
    def get(self, request: Request) -> Response:
        """Available slots that can still be booked, of every tenant, in the order of their start."""
        found = showcase.bookable(as_of=clock.now(), **query(bodies.ShowcaseQuery, request))
        return Response(SlotPage(found).data)

    @operation(
        "Publish a slot",
        needs=MANAGE_SLOTS,
        body=bodies.SlotIn,
        answers=bodies.SlotOut,
        status=HTTPStatus.CREATED,
        refuses=(publishing.SlotOverlap, InvalidField, NotFound),
    )
    def post(self, request: Request) -> Response:
        wanted = read(bodies.SlotIn, request)
        [slot] = publish(request, [publishing.Draft(**without_owner(wanted))], wanted, as_of=clock.now())
        return slot_answer(slot, status=HTTPStatus.CREATED)


class WeeklySlots(Endpoint):
    @operation(
        "Publish slots by a weekly pattern",
        needs=MANAGE_SLOTS,
        body=bodies.WeeklyIn,
        answers=bodies.SlotsOut,
        status=HTTPStatus.CREATED,
        refuses=(publishing.SlotOverlap, NonexistentLocalTime, AmbiguousLocalTime, InvalidField, NotFound),
        has_etag=False,
    )
    def post(self, request: Request) -> Response:
        """All of them or none; 409 lists the conflicts. 10:00 on the wall clock stays 10:00 over a change of DST."""
        wanted = read(bodies.WeeklyIn, request)
        windows = [Window(**window) for window in wanted["windows"]]
        pattern = Pattern(**{**without_owner(wanted), "windows": windows})
        as_of = clock.now()
        slots = publish(request, pattern.drafts(as_of=as_of), wanted, as_of=as_of)
        return Response(bodies.SlotsOut({"items": slots}).data, HTTPStatus.CREATED)


class OwnSlots(Endpoint):
    @operation("List own slots", needs=MANAGE_SLOTS, query=bodies.OwnSlotsQuery, answers=SlotPage, has_etag=False)
    def get(self, request: Request) -> Response:
        """Slots in whatever state, in the order of their start; a tenant admin sees the tenant's."""
        found = showcase.published_by(principal_of(request).actor, **query(bodies.OwnSlotsQuery, request))
        return Response(SlotPage(found).data)


class Slot(Endpoint):
    @operation("Read an own slot", needs=MANAGE_SLOTS, answers=bodies.SlotOut, refuses=(NotFound,))
    def get(self, request: Request, slot_id: UUID) -> Response:
        return slot_answer(showcase.find(slot_id, actor=principal_of(request).actor))

    @operation(
        "Edit a slot while it is Available",
        needs=MANAGE_SLOTS,
        body=bodies.SlotEdit,
        answers=bodies.SlotOut,
        refuses=(NotFound, publishing.SlotNotAvailable, publishing.SlotOverlap, InvalidField),
        changes_a_record=True,
    )
    def patch(self, request: Request, slot_id: UUID) -> Response:
        actor = principal_of(request).actor
        values = read(bodies.SlotEdit, request, partial=True)
        publishing.edit(slot_id, actor=actor, as_of=clock.now(), seen_version=seen_version(request), **values)
        return slot_answer(showcase.find(slot_id, actor=actor))


class SlotWithdrawal(Endpoint):
    @operation(
        "Withdraw a slot",
        needs=MANAGE_SLOTS,
        body=Empty,
        answers=bodies.SlotOut,
        refuses=(NotFound, publishing.SlotNotAvailable),
        changes_a_record=True,
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """Available → Withdrawn. The appointment of a Booked slot is cancelled first."""
        read(Empty, request)
        actor = principal_of(request).actor
        publishing.withdraw(slot_id, actor=actor, as_of=clock.now(), seen_version=seen_version(request))
        return slot_answer(showcase.find(slot_id, actor=actor))


class Events(Endpoint):
    @operation("List events", needs=ANY_TOKEN, query=bodies.EventsQuery, answers=EventPage, has_etag=False)
    def get(self, request: Request) -> Response:
        """Those of which the caller is the client; with `calendar.events.manage` also those that they own."""
        found = agenda.page_for(
            principal_of(request).actor, as_owner=sees_as_owner(request), **query(bodies.EventsQuery, request)
        )
        return Response(EventPage(found).data)

    @operation(
        "Create an event",
        needs=MANAGE_EVENTS,
        body=bodies.EventIn,
        answers=bodies.EventChangedOut,
        status=HTTPStatus.CREATED,
        refuses=(InvalidField, NotFound),
    )
    def post(self, request: Request) -> Response:
        """A Manual event with its reminders; a warning tells when none of them will be sent."""
        wanted = read(bodies.EventIn, request)
        principal, as_of = principal_of(request), clock.now()
        event = diary.create(
            diary.Draft(**without_owner(wanted)),
            owner_user_id=wanted.get("owner_user_id", principal.user_id),
            tenant_id=tenant_of(request),
            actor=principal.actor,
            as_of=as_of,
        )
        found = agenda.find(event.id, actor=principal.actor, as_owner=True)
        silent = agenda.is_silent(found, as_of=as_of)
        return event_answer(found, is_silent=silent, status=HTTPStatus.CREATED)


class Event(Endpoint):
    @operation("Read an event with its reminders", needs=ANY_TOKEN, answers=bodies.EventDetailOut, refuses=(NotFound,))
    def get(self, request: Request, event_id: UUID) -> Response:
        event = agenda.find(event_id, actor=principal_of(request).actor, as_owner=sees_as_owner(request))
        members = {**bodies.EventOut(event).data, "reminders": reminders_of(event)}
        return answer(members, version=event.version)

    @operation(
        "Edit an event",
        needs=MANAGE_EVENTS,
        body=bodies.EventEdit,
        answers=bodies.EventChangedOut,
        refuses=(NotFound, diary.EventFinished, diary.FollowsItsSource, InvalidField),
        changes_a_record=True,
    )
    def patch(self, request: Request, event_id: UUID) -> Response:
        """New times or offsets make the reminders anew. Of an appointment's event only title and offsets can change."""
        actor, as_of = principal_of(request).actor, clock.now()
        values = read(bodies.EventEdit, request, partial=True)
        diary.edit(event_id, actor=actor, as_of=as_of, seen_version=seen_version(request), **values)
        event = agenda.find(event_id, actor=actor, as_owner=True)
        return event_answer(event, is_silent=agenda.is_silent(event, as_of=as_of))


class EventCompletion(Endpoint):
    @operation(
        "Complete an event",
        needs=MANAGE_EVENTS,
        body=Empty,
        answers=bodies.EventOut,
        refuses=(NotFound, diary.EventFinished, diary.FollowsItsSource),
        changes_a_record=True,
    )
    def post(self, request: Request, event_id: UUID) -> Response:
        read(Empty, request)
        actor = principal_of(request).actor
        diary.complete(event_id, actor=actor, as_of=clock.now(), seen_version=seen_version(request))
        event = agenda.find(event_id, actor=actor, as_owner=True)
        return answer(bodies.EventOut(event).data, version=event.version)


class EventCancellation(Endpoint):
    @operation(
        "Cancel an event",
        needs=MANAGE_EVENTS,
        body=bodies.ReasonIn,
        answers=bodies.EventOut,
        refuses=(NotFound, diary.EventFinished, diary.FollowsItsSource, InvalidField),
        changes_a_record=True,
    )
    def post(self, request: Request, event_id: UUID) -> Response:
        actor = principal_of(request).actor
        reason = read(bodies.ReasonIn, request)
        diary.cancel(event_id, actor=actor, as_of=clock.now(), seen_version=seen_version(request), **reason)
        event = agenda.find(event_id, actor=actor, as_owner=True)
        return answer(bodies.EventOut(event).data, version=event.version)


def without_owner(wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if name != "owner_user_id"}


def publish(
    request: Request, drafts: list[publishing.Draft], wanted: dict[str, Any], *, as_of: datetime.datetime
) -> list[AvailabilitySlot]:
    """The drafts as slots of the owner that the body names, or of the caller."""
    principal = principal_of(request)
    slots = publishing.publish(
        drafts,
        owner_user_id=wanted.get("owner_user_id", principal.user_id),
        tenant_id=tenant_of(request),
        actor=principal.actor,
        as_of=as_of,
    )
    return showcase.find_all([slot.id for slot in slots], actor=principal.actor)


def slot_answer(slot: AvailabilitySlot, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return answer(bodies.SlotOut(slot).data, version=slot.version, status=status)


def event_answer(event: CalendarEvent, *, is_silent: bool, status: HTTPStatus = HTTPStatus.OK) -> Response:
    members = {**bodies.EventOut(event).data, "warnings": bodies.warnings(is_silent=is_silent)}
    return answer(members, version=event.version, status=status)


def reminders_of(event: CalendarEvent) -> list[dict[str, Any]]:
    in_order = event.reminders.order_by("due_at", "id")
    return list(bodies.ReminderOut(in_order, many=True).data)


def sees_as_owner(request: Request) -> bool:
    return MANAGE_EVENTS in principal_of(request).permissions
