"""The sentences of a story: what a trace is called, who left it, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from appointments.matrix import Verb
from appointments.models import Appointment
from audit.models import Aggregate, AuditLine
from backoffice import show
from core.actors import ActorKind
from reminders.models import EventReminder


@dataclass(frozen=True, slots=True)
class Part:
    """What an appointment carries along."""

    name: str
    model: str


PARTS: dict[str, Part] = {
    Aggregate.SLOT: Part("slot", "pin_calendar.availabilityslot"),
    Aggregate.EVENT: Part("event", "pin_calendar.calendarevent"),
}

_TITLES: dict[tuple[str, str], str] = {
    (Aggregate.APPOINTMENT, Verb.BOOK): "Requested",
    (Aggregate.APPOINTMENT, Verb.CONFIRM): "Confirmed",
    (Aggregate.APPOINTMENT, Verb.DECLINE): "Declined",
    (Aggregate.APPOINTMENT, Verb.CANCEL): "Cancelled",
    (Aggregate.APPOINTMENT, Verb.EXPIRE): "Lapsed",
    (Aggregate.APPOINTMENT, Verb.COMPLETE): "Took place",
    (Aggregate.APPOINTMENT, Verb.NO_SHOW): "The client did not come",
    (Aggregate.APPOINTMENT, Verb.RESCHEDULE): "Moved to another slot",
    (Aggregate.APPOINTMENT, "reassign"): "Handed over to another owner",
    (Aggregate.EVENT, "create"): "Created",
    (Aggregate.EVENT, "edit"): "Edited",
    (Aggregate.EVENT, "complete"): "Completed",
    (Aggregate.EVENT, "cancel"): "Cancelled",
    (Aggregate.EVENT, "follow_crm"): "Set as the CRM told",
    (Aggregate.EVENT, "reassign"): "Handed over to another owner",
    (Aggregate.SLOT, "publish"): "Published",
    (Aggregate.SLOT, "edit"): "Edited",
    (Aggregate.SLOT, "withdraw"): "Withdrawn",
    (Aggregate.SLOT, Verb.BOOK): "Booked",
    (Aggregate.SLOT, Verb.EXPIRE): "Given back, the request lapsed",
    (Aggregate.SLOT, Verb.DECLINE): "Given back, the request was declined",
    (Aggregate.SLOT, Verb.CANCEL): "Given back, the appointment was cancelled",
    (Aggregate.SLOT, Verb.RESCHEDULE): "An appointment moved",
    (Aggregate.SLOT, "reassign"): "Handed over to another owner",
    (Aggregate.MESSAGE, "retry"): "Retry of a message asked for",
    (Aggregate.MESSAGE, "skip"): "A message was skipped",
    (Aggregate.CONFLICT, "resolve"): "The conflict was resolved",
    (Aggregate.DELIVERY, "resend"): "A delivery is sent again",
    (Aggregate.FEED, "revoke"): "The calendar feed was revoked",
}
_OF_MESSAGES = {"reminder-due": "Reminder sent"}
_KINDS = {ActorKind.USER: "user", ActorKind.TENANT_ADMIN: "tenant admin", ActorKind.SYSTEM: "system"}


def title(line: AuditLine) -> str:
    """What the line tells, in a few words."""
    usual = f"{line.aggregate} {line.verb.replace('_', ' ')}"
    return _TITLES.get((line.aggregate, line.verb), usual[:1].upper() + usual[1:])


def who(line: AuditLine, *, appointment: Appointment | None, names: Mapping[UUID, str]) -> str:
    """Who acted, as the story's reader knows them."""
    if line.actor_kind == ActorKind.OPERATOR:
        name = names.get(line.actor_user_id) if line.actor_user_id else None
        return f"operator {name or line.actor_user_id or 'at a shell'}"
    if appointment and line.actor_user_id == appointment.client_user_id:
        return "the client"
    if appointment and line.actor_user_id == appointment.owner_user_id:
        return "the owner"
    kind = _KINDS[ActorKind(line.actor_kind)]
    return f"{kind} {line.actor_user_id}" if line.actor_user_id else kind


def why(line: AuditLine, *, appointment: Appointment | None) -> str:
    """The reason that is stored, or the rule that brought it about."""
    if appointment is None or line.aggregate != Aggregate.APPOINTMENT:
        return ""
    deadline = appointment.pending_expires_at
    if line.verb == Verb.EXPIRE and deadline:
        late = show.distance(line.occurred_at - deadline)
        return f"nobody had decided by {deadline:%Y-%m-%d %H:%M:%S}; {late} later the timeout worker came by"
    if line.verb in (Verb.DECLINE, Verb.CANCEL) and appointment.cancel_reason:
        return f"«{appointment.cancel_reason}»"
    return ""


def topic(name: str) -> str:
    """A topic without what all of ours have in common."""
    return name.removeprefix("pin.calendar.").rpartition(".")[0] or name


def of_message(name: str) -> str:
    """The title of a step of which only the message is known."""
    return _OF_MESSAGES.get(topic(name), f"Told: {topic(name)}")


def reminder(record: EventReminder) -> str:
    return f"reminder {show.distance(record.offset_minutes * 60)} before"
