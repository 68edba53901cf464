"""The table of transitions, walked cell by cell through the real use cases."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from django.db import transaction

from appointments import booking, decisions, rescheduling
from appointments.lifecycle import NotAllowed, NotYours, TooEarly, TooLate
from appointments.matrix import Verb
from appointments.models import Appointment
from appointments.rescheduling import DeadlinePassed
from appointments.timeout import TimeoutJob, TimeoutResult
from core.actors import Actor
from core.errors import Inconsistent, NotFound, Refused
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot
from reminders.models import EventReminder
from tests.appointments import state
from tests.appointments.table import (
    BEFORE_START,
    DEADLINE,
    FROM_START,
    MOMENTS,
    NEW_START,
    PARTIES,
    RELEASED,
    START,
    STATUSES,
    TABLE,
    VERBS,
    Line,
)
from tests.factories import DAY, HOUR, MINUTE, NOON, TENANT, SlotFactory, an_overdue_appointment, client_of, owner_of

pytestmark = pytest.mark.django_db


def line_for(verb: str, status: str, party: str, moment: str, *, auto_confirm: bool) -> Line | None:
    found = [
        line
        for line in TABLE
        if (line.verb, line.from_, line.by) == (verb, status, party)
        and moment in line.when
        and auto_confirm in line.new_slot_auto_confirm
    ]
    assert len(found) <= 1
    return found[0] if found else None


@contextmanager
def taken_back() -> Iterator[None]:
    """What the block writes is gone afterwards; not an atomic block, in which no durable one may stand."""
    savepoint = transaction.savepoint()
    yield
    transaction.savepoint_rollback(savepoint)


def an_appointment(status: str, *, auto_confirm: bool) -> Appointment:
    """With all that belongs to that status; its day-before reminder is Sent, the other Pending while it is live."""
    is_live = status in ("Pending", "Confirmed")
    has_taken_place = status in ("Completed", "NoShow")
    appointment = an_overdue_appointment(
        status=status,
        start_at=START,
        pending_expires_at=DEADLINE,
        cancelled_by="Client" if status == "Cancelled" else None,
        slot__auto_confirm=auto_confirm,
        slot__status="Booked" if is_live or has_taken_place else "Available",
        calendar_event__status="Scheduled" if is_live else "Completed" if has_taken_place else "Cancelled",
    )
    reminders = EventReminder.objects.filter(event=appointment.calendar_event)
    reminders.filter(offset_minutes=1_440).update(status="Sent", sent_at=START - DAY)
    if not is_live:
        reminders.filter(offset_minutes=60).update(status="Skipped", skip_reason="event_cancelled")
    return appointment


def actor_for(party: str, appointment: Appointment) -> Actor:
    match party:
        case "client":
            return client_of(appointment)
        case "owner":
            return owner_of(appointment)
        case "timeout":
            return Actor.system()
        case _:
            return Actor.user(new_id(), tenant_id=appointment.tenant_id)


def act(verb: str, appointment: Appointment, to_slot: AvailabilitySlot, *, actor: Actor, as_of: Any) -> None:
    if verb == "reschedule":
        rescheduling.reschedule(appointment.id, to_slot.id, actor=actor, as_of=as_of)
    elif verb == "expire" and actor.is_system:
        result = TimeoutJob().cycle(as_of=as_of, limit=200, keep_going=lambda: True)
        if result == TimeoutResult():
            raise Refused("the worker did not select it", status=appointment.status)
    else:
        decisions.change(appointment.id, Verb(verb), actor=actor, as_of=as_of)


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", STATUSES)
def test_what_the_table_has_happens_whole_and_anything_else_changes_nothing(status: str, verb: str, party: str) -> None:
    for auto_confirm in (False, True):
        appointment = an_appointment(status, auto_confirm=auto_confirm)
        to_slot = SlotFactory.create(
            owner_user_id=appointment.owner_user_id, start_at=NEW_START, auto_confirm=auto_confirm
        )
        actor, before = actor_for(party, appointment), state.everything()
        lines = {m: line_for(verb, status, party, m, auto_confirm=auto_confirm) for m in MOMENTS}
        for moment in (moment for moment, line in lines.items() if line is None):
            with pytest.raises(Refused) as caught:
                act(verb, appointment, to_slot, actor=actor, as_of=MOMENTS[moment])
            _check_refusal(caught.value, status, party, moment, verb)
        assert state.everything() == before
        for moment, line in lines.items():
            if line is not None:
                with taken_back():
                    act(verb, appointment, to_slot, actor=actor, as_of=MOMENTS[moment])
                    _check(line, appointment, to_slot, moment=moment)
        appointment.delete()
        to_slot.delete()


def test_the_walk_goes_through_every_line_of_the_table() -> None:
    cells = product(VERBS, STATUSES, PARTIES, MOMENTS, (False, True))
    walked = {id(line_for(*cell, auto_confirm=auto)) for *cell, auto in cells}

    assert {id(line) for line in TABLE} <= walked


def _check_refusal(error: Refused, status: str, party: str, moment: str, verb: str) -> None:
    if party == "stranger":
        assert isinstance(error, NotFound)
    elif isinstance(error, DeadlinePassed):
        assert (verb, status) == ("reschedule", "Pending")
        assert moment in ("overdue", "late")
    else:
        assert error.facts["status"] == status
    if isinstance(error, TooLate):
        assert (error.code, moment in FROM_START) == ("too_late", True)
    if isinstance(error, TooEarly):
        assert (error.code, moment in BEFORE_START) == ("too_early", True)
    if isinstance(error, NotYours | NotAllowed):
        assert error.code == ("not_yours" if isinstance(error, NotYours) else "not_allowed")


def _check(line: Line, appointment: Appointment, to_slot: AvailabilitySlot, *, moment: str) -> None:
    slot, event, as_of = appointment.slot, appointment.calendar_event, MOMENTS[moment]
    _check_appointment(line, appointment, to_slot, as_of=as_of)

    slot_after, was_released = ("Booked", 1), line.slot in ("release", "swap")
    if was_released:
        slot_after = (RELEASED[moment], 2)
    slot.refresh_from_db()
    assert (slot.status, slot.version) == slot_after
    assert not was_released or slot.updated_at == as_of
    to_slot.refresh_from_db()
    assert (to_slot.status, to_slot.version) == (("Booked", 2) if line.slot == "swap" else ("Available", 1))

    event.refresh_from_db()
    is_moved = line.event == "moved"
    event_status = "Scheduled" if line.event in ("stays", "moved") else line.event
    assert (event.status, event.version) == (event_status, 1 if line.event == "stays" else 2)
    assert (event.start_at, event.end_at) == ((NEW_START, NEW_START + HOUR) if is_moved else (START, START + HOUR))
    assert event.cancel_reason == line.text

    assert (
        state.reminders_of(event)
        == {
            "kept": [(60, "Pending", None), (1_440, "Sent", None)],
            "Skipped": [(60, "Skipped", f"event_{line.event.lower()}"), (1_440, "Sent", None)],
            "rematerialised": [(60, "Pending", None), (1_440, "Sent", None), (1_440, "Pending", None)],
        }[line.reminders]
    )
    for reminder in event.reminders.filter(status="Pending"):
        assert reminder.due_at == event.start_at - reminder.offset_minutes * MINUTE

    _check_messages(line, appointment, slot_outcome={"Available": "Released", "Expired": "Expired"}.get(slot.status))

    lines = {("Appointment", line.verb, line.from_, line.to)}
    if was_released:
        lines.add(("Slot", line.verb, "Booked", slot.status))
    if line.slot == "swap":
        lines.add(("Slot", line.verb, "Available", "Booked"))
    if line.event != "stays":
        lines.add(("Event", line.verb, "Scheduled", event.status))
    assert state.audited() == lines


def _check_appointment(
    line: Line, appointment: Appointment, to_slot: AvailabilitySlot, *, as_of: datetime.datetime
) -> None:
    held_slot_id = appointment.slot_id
    appointment = Appointment.objects.get(pk=appointment.pk)
    assert (appointment.status, appointment.version, appointment.updated_at) == (line.to, 2, as_of)
    assert appointment.cancelled_by == (line.by.capitalize() if line.verb == "cancel" else None)
    assert appointment.cancel_reason == ("" if line.to == "Expired" else line.text)
    assert appointment.slot_id == (to_slot.id if line.slot == "swap" else held_slot_id)
    returned = (line.from_, line.to) == ("Confirmed", "Pending")
    assert appointment.pending_expires_at == (as_of + DAY if returned else DEADLINE)


def _check_messages(line: Line, appointment: Appointment, *, slot_outcome: str | None) -> None:
    told = state.told()
    assert [topic for topic, _ in told] == [message.split()[0] for message in line.messages]
    for (topic, payload), message in zip(told, line.messages, strict=True):
        assert payload["aggregateVersion"] == 2
        assert payload["ownerUserId"] == str(appointment.owner_user_id)
        assert payload["clientUserId"] == str(appointment.client_user_id)
        match topic:
            case "appointment-cancelled":
                assert f"{topic} {payload['reason']}" == message
                assert payload["slotOutcome"] == slot_outcome
            case "appointment-completed":
                assert f"{topic} {payload['outcome']}" == message
            case "event-status-changed":
                assert f"{topic} {payload.get('reason')}" == message
                assert (payload["previousStatus"], payload["status"]) == ("Scheduled", line.event)
                assert payload["appointmentId"] == str(appointment.id)
            case "appointment-rescheduled":
                assert (payload["status"], payload["previousStartAt"][:19]) == (line.to, START.isoformat()[:19])


BOOKABLE = {"early": START - 3 * DAY, "at start − lead": START - HOUR}
NOT_BOOKABLE = {
    "just too late": START - HOUR + datetime.timedelta(microseconds=1),
    "at start": START,
    "after": START + HOUR,
}


@pytest.mark.parametrize("auto_confirm", [False, True])
@pytest.mark.parametrize("moment", BOOKABLE | NOT_BOOKABLE)
@pytest.mark.parametrize("slot_status", ["Available", "Booked", "Expired", "Withdrawn"])
def test_only_an_available_slot_can_be_booked_and_only_until_its_lead_time(
    slot_status: str, moment: str, auto_confirm: bool
) -> None:
    slot = SlotFactory.create(start_at=START, status=slot_status, auto_confirm=auto_confirm)
    client = Actor.user(new_id())
    as_of = (BOOKABLE | NOT_BOOKABLE)[moment]
    if slot_status != "Available" or moment in NOT_BOOKABLE:
        before = state.everything()
        with pytest.raises(Refused) as caught:
            booking.book(slot.id, actor=client, as_of=as_of)
        assert caught.value.code == ("slot_taken" if slot_status != "Available" else "lead_time_passed")
        assert state.everything() == before
        return

    appointment_id = booking.book(slot.id, actor=client, as_of=as_of).id

    appointment = Appointment.objects.get(pk=appointment_id)
    event, slot = appointment.calendar_event, appointment.slot
    status = "Confirmed" if auto_confirm else "Pending"
    assert (appointment.status, appointment.version, appointment.created_at) == (status, 1, as_of)
    assert appointment.pending_expires_at == (None if auto_confirm else min(as_of + DAY, START - HOUR))
    assert (slot.status, slot.version) == ("Booked", 2)
    assert (event.status, event.origin, event.source_id) == ("Scheduled", "Appointment", appointment.id)
    assert (event.owner_user_id, event.client_user_id) == (slot.owner_user_id, client.user_id)
    assert (event.tenant_id, appointment.tenant_id, slot.tenant_id) == (TENANT, TENANT, TENANT)
    assert state.reminders_of(event) == (
        [(60, "Pending", None), (1_440, "Pending", None)]
        if moment == "early"
        else [(60, "Pending", None), (1_440, "Skipped", "past")]
    )
    assert state.topics() == ["appointment-booked", "appointment-confirmed"][: 2 if auto_confirm else 1]
    assert [payload["aggregateVersion"] for _, payload in state.told()] == [1] * (2 if auto_confirm else 1)
    assert state.audited() == {
        ("Appointment", "book", "", status),
        ("Slot", "book", "Available", "Booked"),
        ("Event", "book", "", "Scheduled"),
    }


def test_only_a_person_books() -> None:
    slot = SlotFactory.create()

    with pytest.raises(Inconsistent):
        booking.book(slot.id, actor=Actor.system(), as_of=NOON)

    assert not Appointment.objects.exists()
