"""The owner's calendar in plain Python: slots, events, reminders, and what is told and kept of them.

Written from the specification alone, one row at a time. A command has two halves: `why_not_...` names every code that a
refusal may have (none: it is not refused), the other applies it. Nothing here knows how the service does it.
"""

import datetime
import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from core.actors import Actor
from core.clock import iso
from tests.model.records import MINUTE, Appointment, AuditLine, Event, Record, Reminder, Slot, Told

Instant = datetime.datetime

STALE_AFTER = 10 * MINUTE


class Calendar:
    def __init__(self) -> None:
        self.slots: dict[UUID, Slot] = {}
        self.events: dict[UUID, Event] = {}
        self.appointments: dict[UUID, Appointment] = {}
        self.reminders: list[Reminder] = []
        self.conflicts: set[tuple[UUID, UUID]] = set()  # open ones: appointment, owner who could not have it
        self.told: list[Told] = []
        self.audited: list[AuditLine] = []

    # ---- slots

    def why_not_publish(
        self, windows: Sequence[tuple[Instant, Instant]], *, whose: Record, actor: Actor, as_of: Instant
    ) -> set[str]:
        if not whose.is_owned_by(actor):
            return {"not_found"}
        return self._why_not_at(windows, owner=whose.owner_user_id, as_of=as_of)

    def publish(self, slot: Slot, *, actor: Actor) -> None:
        self.slots[slot.id] = slot
        self._audit(slot, "", "Available", actor=actor, as_of=slot.created_at)

    def why_not_edit_slot(self, slot_id: UUID, values: dict[str, Any], *, actor: Actor, as_of: Instant) -> set[str]:
        slot = self.slots[slot_id]
        codes = self._why_not_touch(slot, actor=actor)
        if not codes:
            window = values.get("start_at", slot.start_at), values.get("end_at", slot.end_at)
            codes = self._why_not_at([window], owner=slot.owner_user_id, as_of=as_of, but=slot)
        return codes

    def edit_slot(self, slot_id: UUID, values: dict[str, Any], *, as_of: Instant) -> None:
        slot = self.slots[slot_id]
        if any(getattr(slot, name) != value for name, value in values.items()):
            slot.change(as_of, **values)

    def why_not_withdraw(self, slot_id: UUID, *, actor: Actor) -> set[str]:
        return self._why_not_touch(self.slots[slot_id], actor=actor)

    def withdraw(self, slot_id: UUID, *, actor: Actor, as_of: Instant) -> None:
        self._move_slot(self.slots[slot_id], "Withdrawn", actor=actor, as_of=as_of)

    def _why_not_touch(self, slot: Slot, *, actor: Actor) -> set[str]:
        if not slot.is_owned_by(actor):
            return {"not_found"}
        return set() if slot.status == "Available" else {"slot_not_available"}

    def _why_not_at(
        self, windows: Sequence[tuple[Instant, Instant]], *, owner: UUID, as_of: Instant, but: Slot | None = None
    ) -> set[str]:
        theirs = [slot for slot in self.slots.values() if slot.owner_user_id == owner and slot is not but]
        codes = set()
        if any(start_at <= as_of for start_at, _ in windows):
            codes.add("invalid_field")
        overlapping = [slot for slot in theirs if any(slot.overlaps(*window) for window in windows)]
        if overlapping or any(later[0] < earlier[1] for earlier, later in itertools.pairwise(sorted(windows))):
            codes.add("slot_overlap")
        return codes

    def _move_slot(self, slot: Slot, status: str, *, actor: Actor, as_of: Instant) -> None:
        self._audit(slot, slot.status, status, actor=actor, as_of=as_of)
        slot.change(as_of, status=status)

    def _release(self, slot: Slot, *, actor: Actor, as_of: Instant) -> str:
        """INV-SLT-5; the outcome as messages name it."""
        is_free = as_of <= slot.bookable_until
        self._move_slot(slot, "Available" if is_free else "Expired", actor=actor, as_of=as_of)
        return "Released" if is_free else "Expired"

    # ---- events and reminders

    def add_event(self, event: Event, *, actor: Actor | None) -> None:
        """With its reminders. Without an actor: as the CRM's consumer would, which is not part of this model."""
        self.events[event.id] = event
        self._materialise(event, as_of=event.created_at)
        if actor:
            self._audit(event, "", "Scheduled", actor=actor, as_of=event.created_at)

    def why_not_create(self, event: Event, *, actor: Actor) -> set[str]:
        if not event.is_owned_by(actor):
            return {"not_found"}
        return set() if are_good(event.reminder_offsets_minutes) else {"invalid_field"}

    def why_not_edit_event(self, event_id: UUID, values: dict[str, Any], *, actor: Actor) -> set[str]:
        codes = self._why_not_event(event_id, values, actor=actor)
        if codes != {"not_found"} and not are_good(values.get("reminder_offsets_minutes", [])):
            codes.add("invalid_field")
        return codes

    def _why_not_event(self, event_id: UUID, values: dict[str, Any], *, actor: Actor) -> set[str]:
        """`values`: what is to be changed; the owner may change the offsets of any, an appointment's title too."""
        event = self.events[event_id]
        if not event.is_owned_by(actor):
            return {"not_found"}
        free = {"Appointment": {"title", "reminder_offsets_minutes"}, "CrmDeadline": {"reminder_offsets_minutes"}}
        changed = {name for name, value in values.items() if getattr(event, name) != value}
        codes = set()
        if event.status != "Scheduled":
            codes.add("event_finished")
        if event.origin in free and not changed <= free[event.origin]:
            codes.add("follows_its_source")
        return codes

    def edit_event(self, event_id: UUID, values: dict[str, Any], *, as_of: Instant) -> None:
        event = self.events[event_id]
        if all(getattr(event, name) == value for name, value in values.items()):
            return
        timetable = event.start_at, set(event.reminder_offsets_minutes)
        event.change(as_of, **values)
        if (event.start_at, set(event.reminder_offsets_minutes)) != timetable:
            self._rematerialise(event, as_of=as_of)

    def why_not_finish_event(self, event_id: UUID, *, actor: Actor) -> set[str]:
        return self._why_not_event(event_id, {"status": "finished"}, actor=actor)

    def finish_event(
        self, event_id: UUID, status: str, *, actor: Actor, as_of: Instant, cancel_reason: str = ""
    ) -> None:
        event = self.events[event_id]
        reason = "OwnerRequest"
        self._finish(event, status, actor=actor, as_of=as_of, reason=reason, cancel_reason=cancel_reason)

    def dispatch(self, *, as_of: Instant) -> tuple[int, int]:
        """A run of the dispatcher: how many were sent, how many skipped."""
        due = sorted((r for r in self.reminders if r.status == "Pending" and r.due_at < as_of), key=lambda r: r.due_at)
        counts = [self._dispatch(reminder, as_of=as_of) for reminder in due]
        return counts.count("Sent"), counts.count("Skipped")

    def _dispatch(self, reminder: Reminder, *, as_of: Instant) -> str:
        event = self.events[reminder.event_id]
        reminder.updated_at = as_of
        if as_of > event.end_at + STALE_AFTER:
            reminder.status, reminder.skip_reason = "Skipped", "event_over"
            return reminder.status
        reminder.status, reminder.sent_at = "Sent", as_of
        is_appointment = event.origin == "Appointment"
        self._tell_of_event(
            event,
            "reminder-due",
            as_of,
            kind="AppointmentReminder" if is_appointment else "CalendarReminder",
            offsetMinutes=reminder.offset_minutes,
        )
        return reminder.status

    def _finish(
        self,
        event: Event,
        status: str,
        *,
        actor: Actor,
        as_of: Instant,
        reason: str | None = None,
        cancel_reason: str = "",
    ) -> None:
        self._audit(event, event.status, status, actor=actor, as_of=as_of)
        event.change(as_of, status=status, cancel_reason=cancel_reason)
        for reminder in self._pending(event):
            reminder.status, reminder.skip_reason, reminder.updated_at = "Skipped", f"event_{status.lower()}", as_of
        self._tell_of_event(
            event,
            "event-status-changed",
            as_of,
            origin=event.origin,
            previousStatus="Scheduled",
            status=status,
            **({"reason": reason} if reason else {}),
        )

    def _pending(self, event: Event) -> list[Reminder]:
        return [r for r in self.reminders if r.event_id == event.id and r.status == "Pending"]

    def _materialise(self, event: Event, *, as_of: Instant) -> None:
        for offset in event.reminder_offsets_minutes:
            due_at = event.start_at - offset * MINUTE
            is_past = due_at < as_of
            self.reminders.append(
                Reminder(
                    event_id=event.id,
                    offset_minutes=offset,
                    due_at=due_at,
                    status="Skipped" if is_past else "Pending",
                    skip_reason="past" if is_past else None,
                    created_at=as_of,
                    updated_at=as_of,
                )
            )

    def _rematerialise(self, event: Event, *, as_of: Instant) -> None:
        gone = self._pending(event)
        self.reminders = [r for r in self.reminders if r not in gone]
        self._materialise(event, as_of=as_of)

    # ---- what is told and kept

    def _tell(self, topic: str, key: UUID, record: Record, as_of: Instant, **value: Any) -> None:
        common = {
            "contractVersion": 1,
            "tenantId": str(record.tenant_id),
            "occurredAt": iso(as_of),
            "aggregateVersion": record.version,
            "ownerUserId": str(record.owner_user_id),
        }
        self.told.append(Told(topic, str(key), common | value))

    def _tell_of_event(self, event: Event, topic: str, as_of: Instant, **value: Any) -> None:
        value |= {"eventId": str(event.id), "startAt": iso(event.start_at), "timeZone": event.time_zone}
        if event.client_user_id:
            value["clientUserId"] = str(event.client_user_id)
        if event.origin == "Appointment":
            value["appointmentId"] = str(event.source_id)
        self._tell(topic, event.id, event, as_of, **value)

    def _audit(self, record: Record, from_status: str, to_status: str, *, actor: Actor, as_of: Instant) -> None:
        self.audited.append(
            AuditLine(type(record).__name__, record.id, from_status, to_status, actor.kind.value, actor.user_id, as_of)
        )


def are_good(offsets: Sequence[int]) -> bool:
    """0 to 8 values, each an integer 0..40320, no duplicates."""
    return len(offsets) <= 8 and len(set(offsets)) == len(offsets) and all(0 <= offset <= 40_320 for offset in offsets)
