"""What happened to a request, an event or a slot, and why: every trace of it, in the order of time.

The audit log tells the steps. A use case writes all that it does as of one instant, so what bears a step's instant
belongs to the step: the messages with what has become of them, their deliveries and lead feed entries, the reminders.
What is still to come stands at the end. A story costs the same number of queries however long it is.
"""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Q

from appointments.models import Appointment, AppointmentStatus, ReassignmentConflict
from audit.models import Aggregate, AuditLine
from backoffice import operators
from backoffice.show import distance
from contracts.calendar import AppointmentRescheduled
from crm.models import LeadFeedEntry
from notifications.models import Delivery
from ops import wording
from outbox import states
from outbox.models import OutboxBlockedKey, OutboxMessage
from pin_calendar.models import AvailabilitySlot, CalendarEvent, EventStatus
from reminders.models import EventReminder, ReminderStatus
from workers.models import JobRun


@dataclass(frozen=True, slots=True)
class Note:
    """One line below a step; `link` is a record's page as (`app_label.name`, key)."""

    text: str
    badge: str = ""
    link: tuple[str, Any] | None = None
    fault: str = ""
    notes: tuple["Note", ...] = ()


@dataclass(slots=True)
class Step:
    """Something that happened in one instant, or `is_ahead`; `is_late` when it should have happened already."""

    at: datetime.datetime
    title: str = ""
    badge: str = ""
    who: str = ""
    why: str = ""
    run: JobRun | None = None
    correlation_id: UUID | None = None
    notes: list[Note] = field(default_factory=list)
    is_ahead: bool = False
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose story it is: the records that there are, and those whose traces belong to it."""

    as_of: datetime.datetime
    appointment: Appointment | None = None
    event: CalendarEvent | None = None
    slot: AvailabilitySlot | None = None

    @property
    def ids(self) -> list[UUID]:
        """What audit lines, messages and deliveries name; a slot's own, where the story is the slot's."""
        records = (self.appointment, self.event) if self.appointment or self.event else (self.slot,)
        return [record.pk for record in records if record]


@dataclass(frozen=True, slots=True)
class _Traces:
    lines: list[AuditLine]
    slot_lines: list[AuditLine]
    messages: list[Any]
    faults: dict[tuple[str, str], str]
    deliveries: list[Delivery]
    entries: list[LeadFeedEntry]
    reminders: list[EventReminder]
    runs: dict[UUID, JobRun]
    names: dict[UUID, str]
    conflicts: list[ReassignmentConflict]


def tell(subject: Subject) -> list[Step]:
    """The steps, oldest first."""
    traces = _read(subject)
    steps: dict[datetime.datetime, Step] = {}

    def step_at(at: datetime.datetime, correlation_id: UUID) -> Step:
        return steps.setdefault(at, Step(at, correlation_id=correlation_id))

    for line in traces.lines:
        step = step_at(line.occurred_at, line.correlation_id)
        if not step.title or line.aggregate == Aggregate.APPOINTMENT:
            step.title, step.badge = wording.title(line), line.to_status
            step.who = wording.who(line, appointment=subject.appointment, names=traces.names)
            step.why = wording.why(line, appointment=subject.appointment)
    parts = [line for line in traces.lines if subject.appointment and line.aggregate in wording.PARTS]
    for line in [*traces.slot_lines, *parts]:
        steps[line.occurred_at].notes.append(_change(line))
    for message in traces.messages:
        step = step_at(message.created_at, message.correlation_id)
        step.title = step.title or wording.of_message(message.topic)
    loose: list[Step] = []
    for reminder in traces.reminders:
        loose += _place_reminder(reminder, steps, as_of=subject.as_of)
    for message in traces.messages:
        steps[message.created_at].notes.append(_message(message, traces))
    told = {message.dedup_key for message in traces.messages}
    loose += [_of_delivery(delivery) for delivery in traces.deliveries if delivery.fact not in told]
    loose += [_of_conflict(conflict, as_of=subject.as_of) for conflict in traces.conflicts]
    loose += _ahead(subject)
    for step in steps.values():
        step.run = traces.runs.get(step.correlation_id) if step.correlation_id else None
        step.who = step.run.job if step.run else step.who
    return sorted([*steps.values(), *loose], key=lambda step: step.at)


def _read(subject: Subject) -> _Traces:
    ids = subject.ids
    lines = list(AuditLine.objects.filter(aggregate_id__in=ids).order_by("occurred_at", "id"))
    keys = [str(id_) for id_ in ids]
    messages: list[Any] = list(states.annotated(OutboxMessage.objects.filter(key__in=keys)).order_by("id"))
    conflicts = (
        list(ReassignmentConflict.objects.filter(appointment=subject.appointment).select_related("appointment__slot"))
        if subject.appointment
        else []
    )
    deliveries = list(Delivery.objects.filter(subject_id__in=ids).order_by("id"))
    further = [message.message_id for message in messages] + [record.pk for record in (*conflicts, *deliveries)]
    lines += AuditLine.objects.filter(aggregate_id__in=further).order_by("occurred_at", "id")
    correlations = {line.correlation_id for line in lines} | {message.correlation_id for message in messages}
    is_stuck = any(message.is_parked for message in messages)
    blocked = OutboxBlockedKey.objects.filter(key__in=keys) if is_stuck else []
    appointment = subject.appointment
    leads = Q(appointment_id=appointment.id, tenant_id=appointment.tenant_id) if appointment else Q(pk=None)
    if appointment:
        leads &= Q(client_user_id=appointment.client_user_id)
    return _Traces(
        lines=lines,
        slot_lines=_slot_lines(subject, lines, messages),
        messages=messages,
        faults={(key.topic, key.key): f"{key.reason}: {key.error}" for key in blocked},
        deliveries=deliveries,
        entries=list(LeadFeedEntry.objects.filter(leads)),
        reminders=list(EventReminder.objects.filter(event=subject.event).order_by("due_at", "id"))
        if subject.event
        else [],
        runs=JobRun.objects.in_bulk(correlations),
        names=operators.names(line.actor_user_id for line in lines if line.actor_kind == "Operator"),
        conflicts=conflicts,
    )


def _slot_lines(subject: Subject, lines: Sequence[AuditLine], messages: Iterable[Any]) -> list[AuditLine]:
    """What the steps did to the slots that the appointment has held; a slot serves others before and after."""
    if not subject.appointment:
        return []
    slot_ids = {subject.appointment.slot_id}
    for message in messages:
        if message.topic == AppointmentRescheduled.TOPIC:
            slot_ids |= _slots_of_move(message.payload)
    instants = {line.occurred_at for line in lines}
    return list(AuditLine.objects.filter(aggregate_id__in=slot_ids, occurred_at__in=instants).order_by("id"))


def _slots_of_move(payload: str) -> set[UUID]:
    try:
        moved = AppointmentRescheduled.model_validate_json(payload)
    except ValueError:  # the story is read most when something is broken
        return set()
    return {moved.slot_id, moved.previous_slot_id}


def _change(line: AuditLine) -> Note:
    what = wording.PARTS[line.aggregate]
    change = f"{line.from_status} → {line.to_status}".strip() if line.from_status != line.to_status else "changed"
    return Note(f"{what.name} {change}", link=(what.model, line.aggregate_id))


def _message(message: Any, traces: _Traces) -> Note:
    told = [
        _delivery(delivery, told_at=message.created_at)
        for delivery in traces.deliveries
        if delivery.fact == message.dedup_key
    ]
    told += [
        Note(f"lead feed: {entry.text}", badge="Sent", link=("crm.leadfeedentry", entry.pk))
        for entry in traces.entries
        if entry.fact == message.dedup_key
    ]
    state = states.of(message)
    return Note(
        wording.topic(message.topic),
        badge=state,
        link=("outbox.outboxmessage", message.pk),
        fault=traces.faults.get((message.topic, message.key), "") if state is states.State.BLOCKING else "",
        notes=tuple(told),
    )


def _delivery(delivery: Delivery, *, told_at: datetime.datetime) -> Note:
    later = f", {distance(delivery.sent_at - told_at)} later" if delivery.sent_at else ""
    return Note(
        f"{delivery.channel or 'no channel'} to {delivery.role.replace('_', ' ')}{later}",
        badge=delivery.status,
        link=("notifications.delivery", delivery.pk),
        fault=delivery.error,
    )


def _of_delivery(delivery: Delivery) -> Step:
    """One whose message is in the outbox no more."""
    return Step(
        delivery.created_at,
        wording.of_message(delivery.topic),
        notes=[_delivery(delivery, told_at=delivery.created_at)],
    )


def _of_conflict(conflict: ReassignmentConflict, *, as_of: datetime.datetime) -> Step:
    return Step(
        conflict.created_at,
        "Left behind by a reassignment",
        badge=conflict.state(as_of),
        why=f"its slot overlaps one of {conflict.to_owner_user_id}",
        notes=[Note("conflict", link=("appointments.reassignmentconflict", conflict.pk))],
    )


def _place_reminder(
    reminder: EventReminder, steps: dict[datetime.datetime, Step], *, as_of: datetime.datetime
) -> list[Step]:
    """Below the step that made, sent or skipped it; a step of its own where there is none, or it is still to come."""
    name, link = wording.reminder(reminder), ("reminders.eventreminder", reminder.pk)
    made = steps.get(reminder.created_at)
    if made and reminder.status != ReminderStatus.SENT:
        made.notes.append(Note(f"{name} planned", link=link))
    if reminder.status == ReminderStatus.PENDING:
        is_late = reminder.due_at <= as_of
        return [
            Step(
                reminder.due_at,
                f"{name} is due" if is_late else f"{name} will be sent",
                badge=reminder.status,
                notes=[Note("reminder", link=link)],
                is_ahead=not is_late,
                is_late=is_late,
            )
        ]
    if reminder.status == ReminderStatus.SKIPPED:
        note = Note(f"{name} skipped: {reminder.skip_reason}", link=link)
        at = reminder.updated_at
    else:
        note = Note(f"{name} sent", link=link)
        at = reminder.sent_at or reminder.updated_at
    if at in steps:
        steps[at].notes.append(note)
        return []
    return [Step(at, f"{name} {reminder.status.lower()}", why=reminder.skip_reason or "", notes=[note])]


def _ahead(subject: Subject) -> list[Step]:
    """What the clock will bring."""
    steps = []
    appointment, event = subject.appointment, subject.event
    if appointment and appointment.status == AppointmentStatus.PENDING and appointment.pending_expires_at:
        is_late = appointment.pending_expires_at < subject.as_of
        title = "Should have lapsed" if is_late else "Lapses, unless it is decided before"
        steps.append(Step(appointment.pending_expires_at, title, is_ahead=not is_late, is_late=is_late))
    if event and event.status == EventStatus.SCHEDULED:
        over = event.end_at <= subject.as_of
        if event.start_at > subject.as_of:
            steps.append(Step(event.start_at, "Starts", is_ahead=True))
        elif appointment and over:
            steps.append(Step(event.end_at, "Over, and nobody has said what came of it", is_late=True))
    return steps
