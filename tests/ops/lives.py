"""A healthy state, made by the real use cases: an appointment for each way through the matrix."""

import datetime
from uuid import UUID

from appointments import booking, decisions, rescheduling
from appointments.locks import Facts
from appointments.matrix import Verb
from appointments.reassignment import reassign
from appointments.timeout import TimeoutJob
from core.actors import Actor
from core.ids import new_id
from pin_calendar.publishing import Draft, publish
from pin_calendar.slots import Slot
from reminders.dispatch import DispatchJob
from reminders.models import EventReminder
from tests.factories import DAY, HOUR, MINUTE, NOON, TENANT

PUBLISHED_AT = NOON - 6 * DAY


def a_slot(
    owner_id: UUID | None = None, *, start_at: datetime.datetime = NOON + DAY, auto_confirm: bool = False
) -> Slot:
    """A published slot of the owner, a new one if none is given."""
    owner_id = owner_id or new_id()
    [slot] = publish(
        [Draft(start_at, start_at + HOUR, "Europe/Moscow", auto_confirm=auto_confirm)],
        owner_user_id=owner_id,
        tenant_id=TENANT,
        actor=Actor.user(owner_id, tenant_id=TENANT),
        as_of=PUBLISHED_AT,
    )
    return slot


def a_request(slot: Slot | None = None, *, as_of: datetime.datetime = NOON - HOUR) -> Facts:
    """A booking by a new client."""
    return booking.book((slot or a_slot()).id, actor=Actor.user(new_id()), as_of=as_of)


def decide(appointment: Facts, verb: Verb, *, as_of: datetime.datetime = NOON - HOUR) -> Facts:
    """The owner's decision; for CANCEL the client's."""
    owner = Actor.user(appointment.owner_user_id, tenant_id=appointment.tenant_id)
    actor = Actor.user(appointment.client_user_id) if verb is Verb.CANCEL else owner
    return decisions.change(appointment.id, verb, actor=actor, as_of=as_of).after


def held_then(verb: Verb) -> Facts:
    """A Confirmed meeting of yesterday, with its owner's word on it."""
    request = a_request(a_slot(start_at=NOON - DAY), as_of=NOON - 2 * DAY)
    decide(request, Verb.CONFIRM, as_of=NOON - 2 * DAY)
    return decide(request, verb, as_of=NOON - HOUR)


def lapsed() -> Facts:
    """A request that the timeout worker has expired."""
    request = a_request(as_of=NOON - DAY - MINUTE)
    TimeoutJob().cycle(as_of=NOON, limit=10, keep_going=lambda: True)
    return request


def moved() -> Facts:
    """A request that its client moved to an auto-confirm slot."""
    request = a_request()
    to = a_slot(request.owner_user_id, start_at=NOON + 2 * DAY, auto_confirm=True)
    client = Actor.user(request.client_user_id)
    return rescheduling.reschedule(request.id, to.id, actor=client, as_of=NOON - HOUR).after


def reassigned() -> Facts:
    """A request whose owner was replaced."""
    request = a_request()
    reassign(
        tenant_id=TENANT,
        from_owner_id=request.owner_user_id,
        to_owner_id=new_id(),
        actor=Actor.operator(),
        as_of=NOON - HOUR,
    )
    return request


def reminded() -> EventReminder:
    """The first reminder of a request, sent by the dispatcher."""
    request = a_request(a_slot(start_at=NOON + DAY - MINUTE))
    DispatchJob(stale_after=10 * MINUTE, now=lambda: NOON).cycle(as_of=NOON, limit=10, keep_going=lambda: True)
    return EventReminder.objects.get(event_id=request.calendar_event_id, status="Sent")


def all_of_them() -> None:
    """One appointment for each way through the matrix."""
    a_request()
    a_request(a_slot(auto_confirm=True))
    decide(a_request(), Verb.CONFIRM)
    for verb in (Verb.DECLINE, Verb.CANCEL):
        decide(a_request(), verb)
    for verb in (Verb.COMPLETE, Verb.NO_SHOW):
        held_then(verb)
    lapsed()
    moved()
    reassigned()
    reminded()
