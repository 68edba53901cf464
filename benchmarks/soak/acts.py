"""What people do in a run, through the real use cases: each act returns what the database has acknowledged.

What is to lapse, start or remind within the run is told with instants of the past, as the demo does.
"""

import datetime
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from appointments import booking, decisions, rescheduling
from appointments.deadlines import DECISION_TIME
from appointments.matrix import Verb
from appointments.models import AppointmentStatus
from benchmarks.soak.town import ADMIN, TENANT, KnownSlot, Town
from core.actors import Actor
from pin_calendar import diary, publishing
from pin_calendar.publishing import Draft

_SECOND = datetime.timedelta(seconds=1)
_MINUTE = datetime.timedelta(minutes=1)
_HOUR = datetime.timedelta(hours=1)
_PUBLISHED_AGO = datetime.timedelta(days=2)
_ZONES = ("Europe/Moscow", "Asia/Almaty", "Europe/Riga")


@dataclass(frozen=True, slots=True)
class Receipt:
    """A row that the database has promised to keep, at this version or a later one."""

    table: str
    id: UUID
    version: int


Act = Callable[[Town, random.Random, datetime.datetime], Sequence[Receipt] | None]
"""None: there was nothing to do it with."""


def publish(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt]:
    """Three slots days ahead, some of them where the owner may have one already."""
    known = town.slots.look(dice)
    starts = [town.next_hour() for _ in range(3)]
    if known and dice.random() < 0.1:
        starts[0] = known.start_at
    slots = _publish(town, dice, starts, length=_HOUR, as_of=as_of)
    town.new_slots.add(*slots)
    return _receipts("availability_slots", [(slot.id, 1) for slot in slots])


def edit_slot(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    if (slot := town.slots.look(dice)) is None:
        return None
    edited = publishing.edit(slot.id, actor=ADMIN, as_of=as_of, min_lead_time_minutes=dice.choice([30, 60, 90]))
    return _receipts("availability_slots", [(edited.id, edited.version)])


def withdraw_slot(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    if (slot := town.slots.take(dice)) is None:
        return None
    withdrawn = publishing.withdraw(slot.id, actor=ADMIN, as_of=as_of)
    return _receipts("availability_slots", [(withdrawn.id, withdrawn.version)])


def book(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    """A slot that others may have in mind too."""
    slot = town.slots.look(dice) if dice.random() < 0.5 else town.new_slots.take(dice)
    return None if slot is None else _book(town, dice, slot, as_of=as_of)


def book_what_lapses(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    """A request that is 24 hours old in some seconds."""
    if (slot := town.new_slots.take(dice)) is None:
        return None
    return _book(town, dice, slot, as_of=as_of - DECISION_TIME + dice.uniform(3, 20) * _SECOND)


def meet(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt]:
    """A meeting that begins within half a minute, booked now and confirmed at once."""
    [slot] = _publish(town, dice, [as_of + dice.uniform(5, 30) * _SECOND], length=_SECOND, lead=0, as_of=as_of)
    made = booking.book(slot.id, actor=Actor.user(dice.choice(town.clients)), as_of=as_of)
    version = made.version
    if made.status == AppointmentStatus.PENDING:
        version = decisions.change(made.id, Verb.CONFIRM, actor=ADMIN, as_of=as_of).after.version
    town.meetings.add((made.id, slot))
    return _receipts("appointments", [(made.id, version)])


def close_meeting(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    if (meeting := town.meetings.take(dice)) is None:
        return None
    appointment_id, slot = meeting
    if slot.start_at > as_of:
        town.meetings.add(meeting)
        return None
    return _decide(appointment_id, dice.choice([Verb.COMPLETE, Verb.NO_SHOW]), ADMIN, as_of=as_of)


def decide(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    """Confirm, decline, cancel; some of it too late or a second time."""
    if (known := town.appointments.look(dice)) is None:
        return None
    verb = dice.choice([Verb.CONFIRM, Verb.CONFIRM, Verb.DECLINE, Verb.CANCEL])
    receipts = _decide(known[0], verb, ADMIN, as_of=as_of)
    if verb is not Verb.CONFIRM:
        town.slots.add(known[1])
    return receipts


def reschedule(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    if (known := town.appointments.look(dice)) is None:
        return None
    appointment_id, held = known
    theirs = [slot for slot in town.slots.all() if slot.owner_user_id == held.owner_user_id]
    if not theirs:
        return None
    slot = dice.choice(theirs)
    moved = rescheduling.reschedule(appointment_id, slot.id, actor=ADMIN, as_of=as_of).after
    town.slots.add(held)
    town.appointments.add((appointment_id, slot))
    return _receipts("appointments", [(moved.id, moved.version)])


def create_event(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt]:
    """It begins in a minute and some seconds: its reminder is due in those seconds."""
    start_at = as_of + _MINUTE + dice.uniform(2, 20) * _SECOND
    draft = diary.Draft("Call", start_at, start_at + _HOUR, dice.choice(_ZONES), dice.choice([[1], [1, 2], [1, 0]]))
    owner = dice.choice(town.owners)
    made = diary.create(draft, owner_user_id=owner, tenant_id=TENANT, actor=ADMIN, as_of=as_of)
    town.events.add(made.id)
    return _receipts("calendar_events", [(made.id, made.version)])


def edit_event(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    """Another title, other reminders, or another time, which a reminder that is being sent may race with."""
    if (event_id := town.events.look(dice)) is None:
        return None
    start_at = as_of + _MINUTE + dice.uniform(1, 15) * _SECOND
    values: dict[str, Any] = dice.choice(
        [
            {"title": f"Call {dice.randrange(1_000)}"},
            {"reminder_offsets_minutes": dice.choice([[0], [1], [0, 1]])},
            {"start_at": start_at, "end_at": start_at + _HOUR},
        ]
    )
    edited = diary.edit(event_id, actor=ADMIN, as_of=as_of, **values)
    return _receipts("calendar_events", [(edited.id, edited.version)])


def finish_event(town: Town, dice: random.Random, as_of: datetime.datetime) -> Sequence[Receipt] | None:
    if (event_id := town.events.take(dice)) is None:
        return None
    finish = dice.choice([diary.complete, diary.cancel])
    done = finish(event_id, actor=ADMIN, as_of=as_of)
    return _receipts("calendar_events", [(done.id, done.version)])


ACTS: dict[Act, int] = {
    publish: 16,
    edit_slot: 3,
    withdraw_slot: 2,
    book: 14,
    book_what_lapses: 14,
    meet: 6,
    close_meeting: 6,
    decide: 14,
    reschedule: 6,
    create_event: 12,
    edit_event: 5,
    finish_event: 4,
}
"""How often each is done, among all."""


def _publish(
    town: Town,
    dice: random.Random,
    starts: Iterable[datetime.datetime],
    *,
    length: datetime.timedelta,
    as_of: datetime.datetime,
    lead: int = 60,
) -> list[KnownSlot]:
    zone, is_auto = dice.choice(_ZONES), dice.random() < 0.1
    drafts = [Draft(start, start + length, zone, min_lead_time_minutes=lead, auto_confirm=is_auto) for start in starts]
    owner = dice.choice(town.owners)
    made = publishing.publish(drafts, owner_user_id=owner, tenant_id=TENANT, actor=ADMIN, as_of=as_of - _PUBLISHED_AGO)
    return [KnownSlot(slot.id, owner, slot.start_at) for slot in made]


def _book(town: Town, dice: random.Random, slot: KnownSlot, *, as_of: datetime.datetime) -> Sequence[Receipt]:
    made = booking.book(slot.id, actor=Actor.user(dice.choice(town.clients)), as_of=as_of)
    town.appointments.add((made.id, slot))
    town.slots.add(slot)
    return _receipts("appointments", [(made.id, made.version)])


def _decide(appointment_id: UUID, verb: Verb, actor: Actor, *, as_of: datetime.datetime) -> Sequence[Receipt]:
    after = decisions.change(appointment_id, verb, actor=actor, as_of=as_of).after
    return _receipts("appointments", [(after.id, after.version)])


def _receipts(table: str, rows: Iterable[tuple[UUID, int]]) -> list[Receipt]:
    return [Receipt(table, id_, version) for id_, version in rows]
