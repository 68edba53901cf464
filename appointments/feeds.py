"""A person's calendar under a secret address that calendar programs read. Only the hash of its token is stored."""

import datetime
import hashlib
import secrets
from uuid import UUID

from django.conf import settings
from django.db import transaction

from appointments.models import Appointment, CalendarFeed
from appointments.vcalendar import vcalendar
from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from core import logs
from core.actors import Actor, ActorKind
from core.errors import Inconsistent, NotFound, Refused, VersionConflict
from pin_calendar import agenda

log = logs.get(__name__)

BACK = datetime.timedelta(days=30)
AHEAD = datetime.timedelta(days=366)
MAX_EVENTS = 500
_ZONES_AHEAD = 2 * AHEAD


class AlreadyRevoked(Refused):
    code = "already_revoked"


def issue(*, actor: Actor, shows_owned: bool, as_of: datetime.datetime) -> str:
    """The token of the person's feed in their tenant, told only here; the former one is good no more.

    `shows_owned` adds the events that they own there to those of which they are the client.
    """
    user_id, token = _person(actor), secrets.token_urlsafe(32)
    feed = CalendarFeed(
        user_id=user_id,
        tenant_id=actor.tenant_id,
        token_hash=_hash(token),
        shows_owned=shows_owned,
        created_at=as_of,
    )
    CalendarFeed.objects.bulk_create(
        [feed],
        update_conflicts=True,
        unique_fields=["user_id", "tenant_id"],
        update_fields=["token_hash", "shows_owned", "created_at", "revoked_at"],
    )
    log.info("calendar feed issued", user_id=str(user_id))
    return token


@transaction.atomic(durable=True)
def revoke(*, actor: Actor, as_of: datetime.datetime) -> None:
    """The person's token in their tenant is good no more. Raises NotFound when they have none."""
    user_id = _person(actor)
    live = CalendarFeed.objects.filter(user_id=user_id, tenant_id=actor.tenant_id, revoked_at=None)
    if not live.update(revoked_at=as_of):
        raise NotFound("there is no calendar feed")
    log.info("calendar feed revoked", user_id=str(user_id))


@transaction.atomic(durable=True)
def revoke_for(feed_id: UUID, *, actor: Actor, as_of: datetime.datetime, seen_token_of: str) -> CalendarFeed:
    """The token is good no more, by an operator's hand; its person can ask for a new one.

    Raises NotFound, VersionConflict when the token is not that of `seen_token_of`, AlreadyRevoked.
    """
    feed = CalendarFeed.objects.select_for_update().filter(id=feed_id).first()
    if feed is None or actor.kind is not ActorKind.OPERATOR:
        raise NotFound(f"there is no calendar feed {feed_id}")
    if feed.token_of != seen_token_of:
        raise VersionConflict(f"calendar feed {feed_id} has a new token since then")
    if feed.revoked_at is not None:
        raise AlreadyRevoked(f"calendar feed {feed_id} is revoked already")
    feed.revoked_at = as_of
    feed.save(update_fields=["revoked_at"])
    # Who is a client alone has no tenant; the platform they are a client of has.
    tenant_id = feed.tenant_id or settings.ENV.pin_platform_tenant_id
    audit_log.record([Line(Aggregate.FEED, feed.id, tenant_id, "revoke", "Live", "Revoked")], actor=actor, as_of=as_of)
    return feed


def read(token: str, *, as_of: datetime.datetime) -> bytes:
    """The iCalendar file of what the person may see now, from a month ago to a year ahead, MAX_EVENTS at most.

    Changes nothing. Raises NotFound, alike for a token that is revoked, was replaced or never was.
    """
    feed = CalendarFeed.objects.filter(token_hash=_hash(token), revoked_at=None).first()
    if feed is None:
        raise NotFound("there is no such calendar feed")
    person = Actor.user(feed.user_id, tenant_id=feed.tenant_id)
    events = agenda.page_for(
        person, as_owner=feed.shows_owned, limit=MAX_EVENTS, from_at=as_of - BACK, to_at=as_of + AHEAD
    ).items
    appointments = Appointment.objects.filter(calendar_event_id__in=[event.id for event in events])
    return vcalendar(
        events,
        appointments={appointment.calendar_event_id: appointment for appointment in appointments},
        until=as_of + _ZONES_AHEAD,
    )


def _person(actor: Actor) -> UUID:
    if actor.user_id is None:
        raise Inconsistent("only a person has a calendar feed")
    return actor.user_id


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
