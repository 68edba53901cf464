"""The appointments in plain Python, on top of the calendar: what the rows of the spec's matrix do, one at a time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from core.actors import Actor, ActorKind
from core.clock import iso
from tests.model.calendar import Calendar, Instant
from tests.model.records import DAY, LIVE, Appointment, Event, Slot

MAX_PENDING = 2

# verb: from which status, by whom, whether at or after start_at instead of before it
DECISIONS: dict[str, tuple[Sequence[str], Sequence[str], bool]] = {
    "confirm": (["Pending"], ["Owner"], False),
    "decline": (["Pending"], ["Owner"], False),
    "cancel": (["Pending", "Confirmed"], ["Client", "Owner"], False),
    "complete": (["Confirmed"], ["Owner"], True),
    "no_show": (["Confirmed"], ["Owner"], True),
    "expire": (["Pending"], [], False),
}


class Model(Calendar):
    def why_not_book(self, slot_id: UUID, *, actor: Actor, as_of: Instant) -> set[str]:
        slot = self.slots[slot_id]
        codes = self._why_not_take(slot, as_of=as_of)
        if not slot.auto_confirm and self._is_full(actor.user_id, slot.owner_user_id):
            codes.add("too_many_pending")
        return codes

    def book(
        self, slot_id: UUID, *, appointment_id: UUID, event_id: UUID, title: str, actor: Actor, as_of: Instant
    ) -> None:
        slot = self.slots[slot_id]
        self._move_slot(slot, "Booked", actor=actor, as_of=as_of)
        whose: dict[str, Any] = {
            "tenant_id": slot.tenant_id,
            "owner_user_id": slot.owner_user_id,
            "client_user_id": actor.user_id,
        }
        self.add_event(
            Event(
                **whose,
                **_times(slot),
                id=event_id,
                created_at=as_of,
                origin="Appointment",
                source_id=appointment_id,
                title=title,
                reminder_offsets_minutes=[1440, 60],
            ),
            actor=actor,
        )
        appointment = Appointment(
            **whose,
            id=appointment_id,
            created_at=as_of,
            slot_id=slot_id,
            calendar_event_id=event_id,
            status="Confirmed" if slot.auto_confirm else "Pending",
            pending_expires_at=None if slot.auto_confirm else min(as_of + DAY, slot.bookable_until),
        )
        self.appointments[appointment_id] = appointment
        self._audit(appointment, "", appointment.status, actor=actor, as_of=as_of)
        deadline = appointment.pending_expires_at
        self._tell_of(
            appointment,
            "appointment-booked",
            as_of,
            **_slot_value(slot),
            status=appointment.status,
            **({"pendingExpiresAt": iso(deadline)} if deadline else {}),
        )
        if slot.auto_confirm:
            self._tell_of(appointment, "appointment-confirmed", as_of, **_slot_value(slot))

    def why_not_decide(self, appointment_id: UUID, verb: str, *, actor: Actor, as_of: Instant) -> set[str]:
        appointment = self.appointments[appointment_id]
        if (party := appointment.party(actor)) is None:
            return {"not_found"}
        from_statuses, parties, is_from_start = DECISIONS[verb]
        has_begun = as_of >= self.slots[appointment.slot_id].start_at
        codes = set()
        if party not in parties:
            codes |= {"not_yours", "not_allowed"} if not parties else {"not_yours"}
        if appointment.status not in from_statuses:
            codes.add("not_allowed")
        if has_begun != is_from_start:
            codes.add("too_late" if has_begun else "too_early")
        return codes

    def decide(self, appointment_id: UUID, verb: str, *, actor: Actor, as_of: Instant, reason: str = "") -> None:
        appointment = self.appointments[appointment_id]
        party = appointment.party(actor)
        if verb == "confirm":
            self._move(appointment, "Confirmed", actor=actor, as_of=as_of)
            self._tell_of(appointment, "appointment-confirmed", as_of, **_slot_value(self.slots[appointment.slot_id]))
        elif verb in ("complete", "no_show"):
            status = "Completed" if verb == "complete" else "NoShow"
            self._move(appointment, status, actor=actor, as_of=as_of)
            self._tell_of(appointment, "appointment-completed", as_of, outcome=status)
            self._finish(self.events[appointment.calendar_event_id], "Completed", actor=actor, as_of=as_of)
        elif verb == "decline":
            text = reason or "Запись отклонена агентом"
            self._end(appointment, "Declined", "Declined", text, actor=actor, as_of=as_of, cancel_reason=text)
        else:
            text = reason or ("Запись отменена клиентом" if party == "Client" else "Запись отменена агентом")
            told = f"CancelledBy{party}"
            self._end(
                appointment, "Cancelled", told, text, actor=actor, as_of=as_of, cancel_reason=text, cancelled_by=party
            )

    def expire_overdue(self, *, as_of: Instant, limit: int) -> list[str]:
        """A cycle of the timeout worker; the outcome of each slot."""
        overdue = [a for a in self.appointments.values() if a.status == "Pending" and a.pending_expires_at < as_of]  # type: ignore[operator]
        return [
            self._end(
                appointment,
                "Expired",
                "Expired",
                "Запись не подтверждена агентом в срок",
                actor=Actor.system(),
                as_of=as_of,
            )
            for appointment in sorted(overdue, key=lambda a: (a.pending_expires_at, a.id))[:limit]
        ]

    def why_not_reschedule(self, appointment_id: UUID, slot_id: UUID, *, actor: Actor, as_of: Instant) -> set[str]:
        appointment, to = self.appointments[appointment_id], self.slots[slot_id]
        if (party := appointment.party(actor)) is None:
            return {"not_found"}
        codes = self._why_not_take(to, as_of=as_of)
        if appointment.status not in LIVE:
            codes.add("not_allowed")
        if as_of >= self.slots[appointment.slot_id].start_at:
            codes.add("too_late")
        if slot_id == appointment.slot_id:
            codes.add("same_slot")
        if (to.owner_user_id, to.tenant_id) != (appointment.owner_user_id, appointment.tenant_id):
            codes.add("other_owner")
        if self._status_after_move(appointment, to, party=party) == "Pending":
            if self._deadline_after_move(appointment, to, as_of=as_of) < as_of:
                codes.add("deadline_passed")
            if appointment.status == "Confirmed" and self._is_full(appointment.client_user_id, to.owner_user_id):
                codes.add("too_many_pending")
        return codes

    def reschedule(self, appointment_id: UUID, slot_id: UUID, *, actor: Actor, as_of: Instant) -> None:
        appointment, to = self.appointments[appointment_id], self.slots[slot_id]
        before = self.slots[appointment.slot_id]
        was_pending = appointment.status == "Pending"
        status = self._status_after_move(appointment, to, party=appointment.party(actor))
        values: dict[str, Any] = {"slot_id": slot_id}
        if status == "Pending":
            values["pending_expires_at"] = self._deadline_after_move(appointment, to, as_of=as_of)
        self._release(before, actor=actor, as_of=as_of)
        self._move_slot(to, "Booked", actor=actor, as_of=as_of)
        self._move(appointment, status, actor=actor, as_of=as_of, **values)
        event = self.events[appointment.calendar_event_id]
        event.change(as_of, **_times(to))
        self._rematerialise(event, as_of=as_of)
        previous = {"previousSlotId": str(before.id), "previousStartAt": iso(before.start_at)}
        self._tell_of(appointment, "appointment-rescheduled", as_of, **_slot_value(to), **previous, status=status)
        if was_pending and status == "Confirmed":
            self._tell_of(appointment, "appointment-confirmed", as_of, **_slot_value(to))

    def _status_after_move(self, appointment: Appointment, to: Slot, *, party: str | None) -> str:
        """Moving is no way round the agent's consent."""
        if party == "Owner":
            return appointment.status
        return "Confirmed" if to.auto_confirm else "Pending"

    def _deadline_after_move(self, appointment: Appointment, to: Slot, *, as_of: Instant) -> Instant:
        """24 h from the request, or from the move that returned it to Pending; a further move adds nothing to these."""
        if appointment.status != "Pending" or appointment.pending_expires_at is None:
            return min(as_of + DAY, to.bookable_until)
        return min(max(appointment.created_at + DAY, appointment.pending_expires_at), to.bookable_until)

    def _why_not_take(self, slot: Slot, *, as_of: Instant) -> set[str]:
        codes = set()
        if slot.status != "Available":
            codes.add("slot_taken")
        if as_of > slot.bookable_until:
            codes.add("lead_time_passed")
        return codes

    def _is_full(self, client: UUID | None, owner: UUID) -> bool:
        theirs = [a for a in self.appointments.values() if (a.client_user_id, a.owner_user_id) == (client, owner)]
        return sum(a.status == "Pending" for a in theirs) >= MAX_PENDING

    def _move(self, appointment: Appointment, status: str, *, actor: Actor, as_of: Instant, **values: Any) -> None:
        self._audit(appointment, appointment.status, status, actor=actor, as_of=as_of)
        appointment.change(as_of, status=status, **values)

    def _end(
        self,
        appointment: Appointment,
        status: str,
        told: str,
        text: str,
        *,
        actor: Actor,
        as_of: Instant,
        **values: Any,
    ) -> str:
        """The cascade of a decline, a cancellation or an expiry."""
        slot = self.slots[appointment.slot_id]
        self._move(appointment, status, actor=actor, as_of=as_of, **values)
        outcome = self._release(slot, actor=actor, as_of=as_of)
        self._tell_of(
            appointment,
            "appointment-cancelled",
            as_of,
            slotId=str(slot.id),
            startAt=iso(slot.start_at),
            timeZone=slot.time_zone,
            reason=told,
            slotOutcome=outcome,
        )
        event = self.events[appointment.calendar_event_id]
        self._finish(event, "Cancelled", actor=actor, as_of=as_of, reason=told, cancel_reason=text)
        return outcome

    # ---- reassignment

    def why_not_reassign(
        self, *, tenant_id: UUID, from_owner_id: UUID, to_owner_id: UUID, actor: Actor, as_of: Instant
    ) -> set[str]:
        """By hand: for the tenant's admin or an operator, the whole or nothing."""
        if actor.kind is not ActorKind.OPERATOR and (actor.kind, actor.tenant_id) != (
            ActorKind.TENANT_ADMIN,
            tenant_id,
        ):
            return {"not_found", "not_yours"}
        whose = {"tenant_id": tenant_id, "from_owner_id": from_owner_id, "to_owner_id": to_owner_id}
        return {"reassignment_conflict"} if self.conflicting(**whose, as_of=as_of) else set()

    def reassign(
        self, *, tenant_id: UUID, from_owner_id: UUID, to_owner_id: UUID, actor: Actor, as_of: Instant
    ) -> None:
        """What does not conflict moves; conflicts are noted (by hand, `conflicting` has been asked before)."""
        conflicting = self.conflicting(
            tenant_id=tenant_id, from_owner_id=from_owner_id, to_owner_id=to_owner_id, as_of=as_of
        )
        for appointment in self._movable(tenant_id, from_owner_id, as_of=as_of):
            if appointment in conflicting:
                self.conflicts.add((appointment.id, to_owner_id))
                continue
            self._audit(appointment, appointment.status, appointment.status, actor=actor, as_of=as_of)
            self.conflicts = {(id_, owner) for id_, owner in self.conflicts if id_ != appointment.id}
            slot, event = self.slots[appointment.slot_id], self.events[appointment.calendar_event_id]
            for record in (appointment, slot, event):
                record.change(as_of, owner_user_id=to_owner_id)
            times = {"startAt": iso(slot.start_at), "timeZone": slot.time_zone}
            self._tell_of(appointment, "appointment-reassigned", as_of, previousOwnerUserId=str(from_owner_id), **times)
        for event in self._open_events(tenant_id, from_owner_id, as_of=as_of):
            if event.origin == "CrmDeadline":
                event.change(as_of, owner_user_id=to_owner_id)

    def conflicting(
        self, *, tenant_id: UUID, from_owner_id: UUID, to_owner_id: UUID, as_of: Instant
    ) -> list[Appointment]:
        theirs = [slot for slot in self.slots.values() if slot.owner_user_id == to_owner_id]
        moving = ((a, self.slots[a.slot_id]) for a in self._movable(tenant_id, from_owner_id, as_of=as_of))
        return [a for a, slot in moving if any(other.overlaps(slot.start_at, slot.end_at) for other in theirs)]

    def _movable(self, tenant: UUID, owner: UUID, *, as_of: Instant) -> list[Appointment]:
        sources = {event.source_id for event in self._open_events(tenant, owner, as_of=as_of)}
        return [a for a in self.appointments.values() if a.status in LIVE and a.id in sources]

    def _open_events(self, tenant: UUID, owner: UUID, *, as_of: Instant) -> list[Event]:
        return [
            event
            for event in self.events.values()
            if (event.tenant_id, event.owner_user_id, event.status) == (tenant, owner, "Scheduled")
            and event.origin != "Manual"
            and event.end_at > as_of
        ]

    def _tell_of(self, appointment: Appointment, topic: str, as_of: Instant, **value: Any) -> None:
        whose = {
            "appointmentId": str(appointment.id),
            "eventId": str(appointment.calendar_event_id),
            "clientUserId": str(appointment.client_user_id),
        }
        self._tell(topic, appointment.id, appointment, as_of, **whose, **value)


def _times(slot: Slot) -> dict[str, Any]:
    return {"start_at": slot.start_at, "end_at": slot.end_at, "time_zone": slot.time_zone}


def _slot_value(slot: Slot) -> dict[str, str]:
    return {
        "slotId": str(slot.id),
        "startAt": iso(slot.start_at),
        "endAt": iso(slot.end_at),
        "timeZone": slot.time_zone,
    }
