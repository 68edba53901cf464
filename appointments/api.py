"""Bookings, appointments and reassignments over HTTP: each view translates, makes one call, translates back."""

import datetime
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from api.bodies import Body, Empty, query, read
from api.endpoint import ANY_TOKEN, ANYONE, Endpoint, File, View, operation, principal_of, tenant_of
from api.idempotency import once
from api.paging import page_of
from api.preconditions import answer, file_answer, seen_version
from appointments import bodies, booking, deadlines, decisions, feeds, lifecycle, reassignment, register, rescheduling
from appointments.matrix import Verb
from appointments.models import Appointment
from core import clock
from core.actors import ActorKind
from core.errors import InvalidField, NotFound, Refused
from pin_calendar import agenda
from pin_calendar.api import sees_as_owner
from pin_calendar.bodies import ReasonIn, warnings

DECIDE = "calendar.appointments.decide"
REASSIGN = "calendar.reassign"

CALENDAR = "text/calendar"
AppointmentPage = page_of(bodies.AppointmentOut)
DECISION_REFUSALS = (
    NotFound,
    lifecycle.NotYours,
    lifecycle.NotAllowed,
    lifecycle.TooLate,
    lifecycle.TooEarly,
    InvalidField,
)
STATUSES: dict[type[Refused], HTTPStatus] = {
    booking.LeadTimePassed: HTTPStatus.UNPROCESSABLE_ENTITY,
    deadlines.DeadlineTooNear: HTTPStatus.UNPROCESSABLE_ENTITY,
    rescheduling.DeadlinePassed: HTTPStatus.UNPROCESSABLE_ENTITY,
    rescheduling.OtherOwner: HTTPStatus.UNPROCESSABLE_ENTITY,
    rescheduling.SameSlot: HTTPStatus.UNPROCESSABLE_ENTITY,
    lifecycle.NotYours: HTTPStatus.FORBIDDEN,
}


class Booking(Endpoint):
    statuses = STATUSES

    @operation(
        "Book a slot",
        needs=ANY_TOKEN,
        body=Empty,
        answers=bodies.AppointmentMovedOut,
        status=HTTPStatus.CREATED,
        refuses=(
            NotFound,
            booking.SlotTaken,
            booking.LeadTimePassed,
            deadlines.DeadlineTooNear,
            deadlines.TooManyPending,
        ),
        changes_a_record=True,
        is_idempotent=True,
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """The caller's appointment: Pending, or at once Confirmed on an auto-confirm slot. If-Match is the slot's."""
        read(Empty, request)
        principal, as_of, version = principal_of(request), clock.now(), seen_version(request)

        def book() -> Response:
            booked = booking.book(slot_id, actor=principal.actor, as_of=as_of, seen_version=version)
            appointment = register.find(booked.id, actor=principal.actor)
            return moved_answer(appointment, as_of=as_of, status=HTTPStatus.CREATED)

        return once(request, book, route="POST /slots/{id}/book", user_id=principal.user_id, as_of=as_of)


class Appointments(Endpoint):
    @operation(
        "List appointments",
        needs=ANY_TOKEN,
        query=bodies.AppointmentsQuery,
        answers=AppointmentPage,
        has_etag=False,
    )
    def get(self, request: Request) -> Response:
        """The caller's as client, and as owner in their tenant; a tenant admin's whole tenant."""
        found = register.page_for(principal_of(request).actor, **query(bodies.AppointmentsQuery, request))
        return Response(AppointmentPage(found).data)


class OneAppointment(Endpoint):
    @operation("Read an appointment", needs=ANY_TOKEN, answers=bodies.AppointmentOut, refuses=(NotFound,))
    def get(self, request: Request, appointment_id: UUID) -> Response:
        return appointment_answer(register.find(appointment_id, actor=principal_of(request).actor))


def decision(summary: str, *, needs: str, body: type[Body]) -> Callable[[View], View]:
    """An operation that decides about an appointment."""
    return operation(
        summary,
        needs=needs,
        body=body,
        answers=bodies.AppointmentOut,
        refuses=DECISION_REFUSALS,
        changes_a_record=True,
    )


class _Decision(Endpoint):
    """A verb of the matrix applied to one appointment."""

    statuses = STATUSES
    verb: ClassVar[Verb]

    def decide(self, request: Request, appointment_id: UUID, *, body: type[Body] = Empty) -> Response:
        actor = principal_of(request).actor
        given = read(body, request)
        version = seen_version(request)
        decisions.change(appointment_id, self.verb, actor=actor, as_of=clock.now(), seen_version=version, **given)
        return appointment_answer(register.find(appointment_id, actor=actor))


class Confirmation(_Decision):
    verb = Verb.CONFIRM

    @decision("Confirm a request", needs=DECIDE, body=Empty)
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """Pending → Confirmed, before the start; also after the deadline as long as it has not lapsed."""
        return self.decide(request, appointment_id)


class Declining(_Decision):
    verb = Verb.DECLINE

    @decision("Decline a request", needs=DECIDE, body=ReasonIn)
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """Pending → Declined; the slot is given back."""
        return self.decide(request, appointment_id, body=ReasonIn)


class Cancellation(_Decision):
    verb = Verb.CANCEL

    @decision("Cancel an appointment", needs=ANY_TOKEN, body=ReasonIn)
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """By its client or its owner, before the start; the slot is given back."""
        return self.decide(request, appointment_id, body=ReasonIn)


class Completion(_Decision):
    verb = Verb.COMPLETE

    @decision("Say that the meeting took place", needs=DECIDE, body=Empty)
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """Confirmed → Completed, from the start on."""
        return self.decide(request, appointment_id)


class NoShow(_Decision):
    verb = Verb.NO_SHOW

    @decision("Say that the client did not come", needs=DECIDE, body=Empty)
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """Confirmed → NoShow, from the start on."""
        return self.decide(request, appointment_id)


class Rescheduling(Endpoint):
    statuses = STATUSES

    @operation(
        "Move an appointment to another slot",
        needs=ANY_TOKEN,
        body=bodies.RescheduleIn,
        answers=bodies.AppointmentMovedOut,
        refuses=(
            *DECISION_REFUSALS,
            rescheduling.SameSlot,
            rescheduling.OtherOwner,
            rescheduling.DeadlinePassed,
            booking.SlotTaken,
            booking.LeadTimePassed,
            deadlines.DeadlineTooNear,
            deadlines.TooManyPending,
        ),
        changes_a_record=True,
    )
    def post(self, request: Request, appointment_id: UUID) -> Response:
        """By its client or its owner, before the start. Moved by the client it needs the owner's consent anew."""
        actor, as_of = principal_of(request).actor, clock.now()
        to_slot_id = read(bodies.RescheduleIn, request)["slot_id"]
        version = seen_version(request)
        rescheduling.reschedule(appointment_id, to_slot_id, actor=actor, as_of=as_of, seen_version=version)
        return moved_answer(register.find(appointment_id, actor=actor), as_of=as_of)


class Reassignments(Endpoint):
    @operation(
        "Move everything open from one owner to another",
        needs=REASSIGN,
        body=bodies.ReassignmentIn,
        answers=bodies.ReassignmentOut,
        refuses=(reassignment.ReassignmentRefused, InvalidField),
        has_etag=False,
    )
    def post(self, request: Request) -> Response:
        """Of the tenant admin's tenant, all or nothing; 409 lists the appointments that would overlap."""
        owners = read(bodies.ReassignmentIn, request)
        actor, tenant_id = principal_of(request).actor, tenant_of(request)
        if actor.kind is not ActorKind.TENANT_ADMIN:
            raise exceptions.PermissionDenied("only a tenant admin can reassign")
        moved = reassignment.reassign(tenant_id=tenant_id, actor=actor, as_of=clock.now(), **owners)
        return Response(bodies.ReassignmentOut(moved).data)


class Feeds(Endpoint):
    @operation(
        "Get the address of one's calendar for calendar programs",
        needs=ANY_TOKEN,
        body=Empty,
        answers=bodies.FeedOut,
        status=HTTPStatus.CREATED,
        has_etag=False,
    )
    def post(self, request: Request) -> Response:
        """Events of which the caller is the client and, with `calendar.events.manage`, those that they own.

        Never those of others in the tenant. A new address of the same tenant ends the former one.
        """
        read(Empty, request)
        as_of = clock.now()
        token = feeds.issue(actor=principal_of(request).actor, shows_owned=sees_as_owner(request), as_of=as_of)
        url = request.build_absolute_uri(reverse("feed", kwargs={"token": token}))
        return Response(bodies.FeedOut({"url": url, "created_at": as_of}).data, HTTPStatus.CREATED)


class FeedRevocation(Endpoint):
    @operation(
        "End the address of one's calendar",
        needs=ANY_TOKEN,
        body=Empty,
        answers=bodies.FeedRevokedOut,
        refuses=(NotFound,),
        has_etag=False,
    )
    def post(self, request: Request) -> Response:
        read(Empty, request)
        as_of = clock.now()
        feeds.revoke(actor=principal_of(request).actor, as_of=as_of)
        return Response(bodies.FeedRevokedOut({"revoked_at": as_of}).data)


class Feed(Endpoint):
    @operation("Read a calendar", needs=ANYONE, answers=File(CALENDAR), refuses=(NotFound,))
    def get(self, request: Request, token: str) -> HttpResponse:
        """An iCalendar file (RFC 5545) of the person's events, from 30 days ago to a year ahead, 500 at most."""
        return file_answer(request, feeds.read(token, as_of=clock.now()), media_type=CALENDAR)


def appointment_answer(appointment: Appointment) -> Response:
    return answer(bodies.AppointmentOut(appointment).data, version=appointment.version)


def moved_answer(appointment: Appointment, *, as_of: datetime.datetime, status: HTTPStatus = HTTPStatus.OK) -> Response:
    silent = agenda.is_silent(appointment.calendar_event, as_of=as_of)
    members = {**bodies.AppointmentOut(appointment).data, "warnings": warnings(is_silent=silent)}
    return answer(members, version=appointment.version, status=status)
