"""What the matrix says about stored rows, as relations for SQL: the rule stands once, in `appointments.matrix`."""

from collections.abc import Iterable

from appointments import reassignment
from appointments.matrix import MATRIX, EventEffect, SlotEffect
from appointments.models import LIVE
from contracts.base import Message
from contracts.calendar import AppointmentReassigned, EventStatusChanged
from pin_calendar.models import EventStatus

_EVENT_STATUS: dict[EventEffect, EventStatus] = {
    EventEffect.CREATE: EventStatus.SCHEDULED,
    EventEffect.KEEP: EventStatus.SCHEDULED,
    EventEffect.MOVE: EventStatus.SCHEDULED,
    EventEffect.CANCEL: EventStatus.CANCELLED,
    EventEffect.COMPLETE: EventStatus.COMPLETED,
}

# Appointment statuses, by what they mean for the slot and for what may follow.
LEAVES_BOOKED = frozenset(row.to.value for row in MATRIX if row.slot is not SlotEffect.RELEASE)
GIVES_BACK = frozenset(row.to.value for row in MATRIX if row.slot is SlotEffect.RELEASE)
TERMINAL = frozenset(row.to.value for row in MATRIX) - {status.value for row in MATRIX for status in row.from_}

# (appointment's status, its event's status)
EVENT_STATUSES = frozenset((row.to.value, _EVENT_STATUS[row.event].value) for row in MATRIX)

# (verb, from, to) → the messages that tell it, `from` being empty for a booking. A reassignment is no row of the
# matrix: it changes the owner and leaves the status.
TOLD_BY: dict[tuple[str, str, str], tuple[type[Message], ...]] = {
    (row.verb.value, from_, row.to.value): row.messages
    for row in MATRIX
    for from_ in ([status.value for status in row.from_] or [""])
} | {(reassignment.VERB, status.value, status.value): (AppointmentReassigned,) for status in LIVE}

# (verb, from, to, topic) of the messages whose key is the appointment. What an event tells of itself follows from the
# event's own end, whoever brought it about.
MESSAGES = frozenset(
    (*transition, message.TOPIC)
    for transition, messages in TOLD_BY.items()
    for message in messages
    if message is not EventStatusChanged
)
TOPICS = frozenset(topic for *_, topic in MESSAGES)


def words(values: Iterable[str]) -> str:
    """The words as a list for `IN (…)`."""
    return ", ".join(f"'{value}'" for value in sorted(values))


def relation(rows: Iterable[tuple[str, ...]]) -> str:
    """The rows as a `VALUES` list."""
    lines = (", ".join(f"'{value}'" for value in row) for row in sorted(rows))
    return f"VALUES {', '.join(f'({line})' for line in lines)}"
