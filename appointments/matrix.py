"""THE table of an appointment's transitions, row for row as the specification has it.

Every caller (API, worker, admin, consumer) goes through it; `docs/matrix.md` is printed from it. What is not in it is
refused, so the terminal states (Declined, Cancelled, Expired, Completed, NoShow) never change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from appointments.models import AppointmentStatus as Status
from contracts.base import Message
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentCompleted,
    AppointmentConfirmed,
    AppointmentRescheduled,
    EventStatusChanged,
)


class Verb(StrEnum):
    BOOK = "book"
    CONFIRM = "confirm"
    DECLINE = "decline"
    CANCEL = "cancel"
    EXPIRE = "expire"
    COMPLETE = "complete"
    NO_SHOW = "no_show"
    RESCHEDULE = "reschedule"


class Party(StrEnum):
    """The actor's part in an appointment. A tenant admin and an operator act as the owner."""

    CLIENT = "client"
    OWNER = "owner"
    TIMEOUT = "timeout worker"


class When(StrEnum):
    BOOKABLE = "slot Available and now <= start_at − lead"
    BEFORE_START = "before start_at"
    MOVABLE = "before start_at, new slot Available and now <= its start − its lead"
    FROM_START = "at or after start_at"
    OVERDUE = "pending_expires_at < AsOf"


class AutoConfirm(StrEnum):
    """Whether the (new) slot confirms by itself, where the row depends on it."""

    YES = "auto-confirm slot"
    NO = "not auto-confirm"
    EITHER = "any slot"


class SlotEffect(StrEnum):
    BOOK = "Available → Booked"
    KEEP = "stays Booked"
    RELEASE = "release rule"
    SWAP = "old: release rule; new: Booked"


class EventEffect(StrEnum):
    CREATE = "created Scheduled"
    KEEP = "stays Scheduled"
    CANCEL = "→ Cancelled"
    COMPLETE = "→ Completed"
    MOVE = "times moved"


class ReminderEffect(StrEnum):
    MATERIALISE = "materialised"
    KEEP = "kept"
    SKIP = "→ Skipped"
    REMATERIALISE = "rematerialised"


# What each event effect does to the event's Pending reminders: they follow the event alone.
REMINDERS: dict[EventEffect, ReminderEffect] = {
    EventEffect.CREATE: ReminderEffect.MATERIALISE,
    EventEffect.KEEP: ReminderEffect.KEEP,
    EventEffect.CANCEL: ReminderEffect.SKIP,
    EventEffect.COMPLETE: ReminderEffect.SKIP,
    EventEffect.MOVE: ReminderEffect.REMATERIALISE,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One transition. An empty `from_` means that the appointment does not exist yet."""

    verb: Verb
    from_: frozenset[Status]
    to: Status
    by: frozenset[Party]
    when: When
    slot: SlotEffect
    event: EventEffect
    messages: tuple[type[Message], ...]
    auto_confirm: AutoConfirm = AutoConfirm.EITHER

    @property
    def reminders(self) -> ReminderEffect:
        return REMINDERS[self.event]


T = TypeVar("T")


def _of(*items: T) -> frozenset[T]:
    return frozenset(items)


NONE: frozenset[Status] = frozenset()
_PENDING = _of(Status.PENDING)
_CONFIRMED = _of(Status.CONFIRMED)
_LIVE = _PENDING | _CONFIRMED
_CLIENT = _of(Party.CLIENT)
_OWNER = _of(Party.OWNER)
_EITHER = _CLIENT | _OWNER
_TIMEOUT = _of(Party.TIMEOUT)
_CANCELLED = (AppointmentCancelled, EventStatusChanged)
_COMPLETED = (AppointmentCompleted, EventStatusChanged)
_MOVED = (AppointmentRescheduled,)

# fmt: off
MATRIX: tuple[Row, ...] = (
    Row(Verb.BOOK, NONE, Status.PENDING, _CLIENT, When.BOOKABLE,
        SlotEffect.BOOK, EventEffect.CREATE, (AppointmentBooked,), AutoConfirm.NO),
    Row(Verb.BOOK, NONE, Status.CONFIRMED, _CLIENT, When.BOOKABLE,
        SlotEffect.BOOK, EventEffect.CREATE, (AppointmentBooked, AppointmentConfirmed), AutoConfirm.YES),
    Row(Verb.CONFIRM, _PENDING, Status.CONFIRMED, _OWNER, When.BEFORE_START,
        SlotEffect.KEEP, EventEffect.KEEP, (AppointmentConfirmed,)),
    Row(Verb.DECLINE, _PENDING, Status.DECLINED, _OWNER, When.BEFORE_START,
        SlotEffect.RELEASE, EventEffect.CANCEL, _CANCELLED),
    Row(Verb.CANCEL, _LIVE, Status.CANCELLED, _EITHER, When.BEFORE_START,
        SlotEffect.RELEASE, EventEffect.CANCEL, _CANCELLED),
    Row(Verb.EXPIRE, _PENDING, Status.EXPIRED, _TIMEOUT, When.OVERDUE,
        SlotEffect.RELEASE, EventEffect.CANCEL, _CANCELLED),
    Row(Verb.COMPLETE, _CONFIRMED, Status.COMPLETED, _OWNER, When.FROM_START,
        SlotEffect.KEEP, EventEffect.COMPLETE, _COMPLETED),
    Row(Verb.NO_SHOW, _CONFIRMED, Status.NO_SHOW, _OWNER, When.FROM_START,
        SlotEffect.KEEP, EventEffect.COMPLETE, _COMPLETED),
    Row(Verb.RESCHEDULE, _PENDING, Status.PENDING, _OWNER, When.MOVABLE,
        SlotEffect.SWAP, EventEffect.MOVE, _MOVED),
    Row(Verb.RESCHEDULE, _CONFIRMED, Status.CONFIRMED, _OWNER, When.MOVABLE,
        SlotEffect.SWAP, EventEffect.MOVE, _MOVED),
    Row(Verb.RESCHEDULE, _LIVE, Status.PENDING, _CLIENT, When.MOVABLE,
        SlotEffect.SWAP, EventEffect.MOVE, _MOVED, AutoConfirm.NO),
    Row(Verb.RESCHEDULE, _PENDING, Status.CONFIRMED, _CLIENT, When.MOVABLE,
        SlotEffect.SWAP, EventEffect.MOVE, (AppointmentRescheduled, AppointmentConfirmed), AutoConfirm.YES),
    Row(Verb.RESCHEDULE, _CONFIRMED, Status.CONFIRMED, _CLIENT, When.MOVABLE,
        SlotEffect.SWAP, EventEffect.MOVE, _MOVED, AutoConfirm.YES),
)
# fmt: on


def rows(verb: Verb, party: Party) -> Iterator[Row]:
    """The rows by which this party may use the verb, in whatever state."""
    return (row for row in MATRIX if row.verb is verb and party in row.by)


def find(verb: Verb, party: Party, status: Status | None, *, auto_confirm: bool) -> Row | None:
    """The row for an appointment in that status (None: not yet there), or None where the matrix has none."""
    wanted = {AutoConfirm.EITHER, AutoConfirm.YES if auto_confirm else AutoConfirm.NO}
    for row in rows(verb, party):
        if row.auto_confirm in wanted and (status in row.from_ if status else not row.from_):
            return row
    return None
