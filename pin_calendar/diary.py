"""The owner's use cases of events: create, edit, complete, cancel (UC-CAL-001), and what INV-CAL-3 leaves of them.

Manual events are the owner's own. An appointment's event changes its status and times only with the appointment, a CRM
deadline's only with the CRM; of these the owner may change the reminder offsets, of an appointment's the title too.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from audit import log as audit_log
from contracts.calendar import EventReason
from core import zones
from core.actors import Actor
from core.errors import InvalidField, NotFound, Refused, refuse_stale
from outbox.publish import publish
from pin_calendar import events
from pin_calendar.drafts import changes
from pin_calendar.events import Event, EventChange
from pin_calendar.models import DEFAULT_OFFSETS_MINUTES, EventOrigin, EventStatus, in_utc, refuse_bad_text
from reminders.models import MAX_OFFSET_MINUTES

MAX_OFFSETS = 8
_EDITABLE: dict[EventOrigin, frozenset[str]] = {
    EventOrigin.MANUAL: frozenset({"title", "start_at", "end_at", "time_zone", "reminder_offsets_minutes"}),
    EventOrigin.APPOINTMENT: frozenset({"title", "reminder_offsets_minutes"}),
    EventOrigin.CRM_DEADLINE: frozenset({"reminder_offsets_minutes"}),
}


class EventFinished(Refused):
    """Only a Scheduled event can be changed."""

    code = "event_finished"


class FollowsItsSource(Refused):
    """INV-CAL-3: this of an event changes only with its appointment or with the CRM."""

    code = "follows_its_source"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event as its owner wants it; times are aware. A deadline's end is its start."""

    title: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    reminder_offsets_minutes: Sequence[int] = DEFAULT_OFFSETS_MINUTES

    def checked(self) -> "Draft":
        """The draft with its times in UTC and its zone's canonical name. Raises InvalidField."""
        refuse_bad_text("title", self.title)
        zone = zones.checked(self.time_zone)
        start_at, end_at = in_utc("start_at", self.start_at), in_utc("end_at", self.end_at)
        if end_at < start_at:
            raise InvalidField("end_at", "must not be before start_at")
        offsets = list(self.reminder_offsets_minutes)
        refuse_bad_offsets(offsets)
        return replace(self, start_at=start_at, end_at=end_at, time_zone=zone, reminder_offsets_minutes=offsets)


def refuse_bad_offsets(offsets_minutes: Sequence[int]) -> None:
    """Raises InvalidField unless these are 0 to 8 different whole minutes from 0 to 40320."""
    field = "reminder_offsets_minutes"
    if len(offsets_minutes) > MAX_OFFSETS:
        raise InvalidField(field, f"must hold at most {MAX_OFFSETS} values, holds {len(offsets_minutes)}")
    if not all(0 <= minutes <= MAX_OFFSET_MINUTES for minutes in offsets_minutes):
        raise InvalidField(field, f"must hold minutes from 0 to {MAX_OFFSET_MINUTES}")
    if len(set(offsets_minutes)) != len(offsets_minutes):
        raise InvalidField(field, "must not hold a value twice")


@transaction.atomic(durable=True)
def create(draft: Draft, *, owner_user_id: UUID, tenant_id: UUID, actor: Actor, as_of: datetime.datetime) -> Event:
    """A new Manual event with its reminders. Raises NotFound for whom it is not to do, InvalidField."""
    if not actor.acts_for_owner(owner_user_id, tenant_id):
        raise NotFound(f"there is no owner {owner_user_id}")
    checked = draft.checked()
    event = events.new(
        tenant_id=tenant_id,
        owner_user_id=owner_user_id,
        client_user_id=None,
        origin=EventOrigin.MANUAL,
        source_id=None,
        title=checked.title,
        start_at=checked.start_at,
        end_at=checked.end_at,
        time_zone=checked.time_zone,
        reminder_offsets_minutes=checked.reminder_offsets_minutes,
    )
    events.insert([event], as_of=as_of)
    audit_log.record(events.creation_lines([event], verb="create"), actor=actor, as_of=as_of)
    return event


@transaction.atomic(durable=True)
def edit(
    event_id: UUID, *, actor: Actor, as_of: datetime.datetime, seen_version: int | None = None, **values: Any
) -> Event:
    """Other values for fields of `Draft`; new times or offsets rematerialise the reminders, equal ones change nothing.

    Raises NotFound, VersionConflict, EventFinished, FollowsItsSource, InvalidField.
    """
    event = _hold(event_id, actor=actor, seen_version=seen_version)
    present = Draft(event.title, event.start_at, event.end_at, event.time_zone, event.reminder_offsets_minutes)
    wanted = replace(present, **values).checked()
    changed = changes(present, wanted, values)
    for name in sorted(changed.keys() - _EDITABLE[EventOrigin(event.origin)]):
        raise FollowsItsSource(f"{name} of event {event_id} changes only with its {event.origin}", field=name)
    if not changed:
        return event
    change = events.edit(event, **changed)
    _carry_out([change], verb="edit", actor=actor, as_of=as_of)
    return change.after


@transaction.atomic(durable=True)
def complete(event_id: UUID, *, actor: Actor, as_of: datetime.datetime, seen_version: int | None = None) -> Event:
    """Scheduled → Completed, of a Manual event. Raises NotFound, VersionConflict, EventFinished, FollowsItsSource."""
    event = _hold_manual(event_id, actor=actor, seen_version=seen_version)
    change = events.complete(event, reason=EventReason.OWNER_REQUEST)
    _carry_out([change], verb="complete", actor=actor, as_of=as_of)
    return change.after


@transaction.atomic(durable=True)
def cancel(
    event_id: UUID, *, actor: Actor, as_of: datetime.datetime, reason: str = "", seen_version: int | None = None
) -> Event:
    """Scheduled → Cancelled, of a Manual event; `reason` is the owner's own text.

    Raises NotFound, VersionConflict, EventFinished, FollowsItsSource, InvalidField.
    """
    refuse_bad_text("reason", reason)
    event = _hold_manual(event_id, actor=actor, seen_version=seen_version)
    change = events.cancel(event, reason=EventReason.OWNER_REQUEST, cancel_reason=reason.strip())
    _carry_out([change], verb="cancel", actor=actor, as_of=as_of)
    return change.after


def _hold(event_id: UUID, *, actor: Actor, seen_version: int | None) -> Event:
    event = events.lock(event_id)
    if event is None or not actor.acts_for_owner(event.owner_user_id, event.tenant_id):
        raise NotFound(f"there is no event {event_id}")
    refuse_stale(f"event {event_id}", version=event.version, seen=seen_version)
    if event.status != EventStatus.SCHEDULED:
        raise EventFinished(f"event {event_id} is {event.status}", status=event.status)
    return event


def _hold_manual(event_id: UUID, *, actor: Actor, seen_version: int | None) -> Event:
    event = _hold(event_id, actor=actor, seen_version=seen_version)
    if event.origin != EventOrigin.MANUAL:
        raise FollowsItsSource(f"event {event_id} ends only with its {event.origin}")
    return event


def _carry_out(changes: Sequence[EventChange], *, verb: str, actor: Actor, as_of: datetime.datetime) -> None:
    events.write(changes, as_of=as_of)
    audit_log.record(events.audit_lines(changes, verb=verb), actor=actor, as_of=as_of)
    publish(events.messages(changes, as_of=as_of), as_of=as_of)
