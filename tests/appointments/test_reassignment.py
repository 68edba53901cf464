"""UC-CAL-011: what is open of one owner moves to another of the same tenant."""

from typing import Any
from uuid import UUID

import pytest

from appointments import decisions
from appointments.matrix import Verb
from appointments.models import Appointment, ReassignmentConflict
from appointments.reassignment import Reassignment, ReassignmentRefused, reassign
from appointments.timeout import TimeoutJob
from audit.models import AuditLine
from core import sql
from core.actors import Actor
from core.correlation import correlated
from core.errors import Inconsistent, InvalidField, NotFound
from core.ids import new_id
from pin_calendar import publishing
from pin_calendar.models import CalendarEvent
from reminders.models import EventReminder
from tests.appointments import state
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    TENANT,
    EventFactory,
    SlotFactory,
    an_open_appointment,
    an_overdue_appointment,
    client_of,
    owner_of,
)

pytestmark = pytest.mark.django_db

ADMIN = Actor.tenant_admin(new_id(), tenant_id=TENANT)
ANNA, BORIS = new_id(), new_id()


def from_anna_to_boris(*, actor: Actor = ADMIN) -> Reassignment:
    return reassign(tenant_id=TENANT, from_owner_id=ANNA, to_owner_id=BORIS, actor=actor, as_of=NOON)


def of_anna(**fields: Any) -> Appointment:
    return an_open_appointment(slot__owner_user_id=ANNA, **fields)


def a_deadline(**fields: Any) -> CalendarEvent:
    facts = {"owner_user_id": ANNA, "origin": "CrmDeadline", "source_id": new_id(), "end_at": NOON + DAY, **fields}
    return EventFactory.create(**{"start_at": facts["end_at"], **facts})


def owners(appointment: Appointment) -> tuple[set[UUID], set[int]]:
    """Of appointment, slot and event; and their versions."""
    fresh = Appointment.objects.get(pk=appointment.pk)
    records = (fresh, fresh.slot, fresh.calendar_event)
    return {record.owner_user_id for record in records}, {record.version for record in records}


@pytest.mark.parametrize("status", ["Pending", "Confirmed"])
def test_a_live_appointment_moves_with_slot_and_event_and_is_told(status: str) -> None:
    appointment = of_anna(status=status)

    moved = from_anna_to_boris()

    assert moved == Reassignment((appointment.id,), (appointment.calendar_event_id,), ())
    assert owners(appointment) == ({BORIS}, {2})
    [(topic, payload)] = state.told()
    assert topic == "appointment-reassigned"
    assert (payload["previousOwnerUserId"], payload["ownerUserId"]) == (str(ANNA), str(BORIS))
    assert (payload["aggregateVersion"], payload["clientUserId"]) == (2, str(appointment.client_user_id))


def test_nothing_else_of_it_changes_and_the_reminders_keep_their_rows() -> None:
    appointment = of_anna()
    reminders = list(EventReminder.objects.order_by("id").values())

    from_anna_to_boris()

    fresh = Appointment.objects.get(pk=appointment.pk)
    assert (fresh.status, fresh.pending_expires_at) == ("Pending", appointment.pending_expires_at)
    assert (fresh.slot.status, fresh.calendar_event.status) == ("Booked", "Scheduled")
    assert list(EventReminder.objects.order_by("id").values()) == reminders


def test_open_crm_deadlines_move_without_a_message() -> None:
    deadline = a_deadline()

    moved = from_anna_to_boris()

    deadline.refresh_from_db()
    assert moved.event_ids == (deadline.id,)
    assert (deadline.owner_user_id, deadline.version) == (BORIS, 2)
    assert state.told() == []


def test_what_has_ended_stays() -> None:
    ended = of_anna(status="Confirmed", start_at=NOON - HOUR)
    over, ahead = a_deadline(end_at=NOON), a_deadline(end_at=NOON + MICROSECOND)

    moved = from_anna_to_boris()

    assert owners(ended) == ({ANNA}, {1})
    over.refresh_from_db()
    assert over.owner_user_id == ANNA
    assert moved.event_ids == (ahead.id,)


def test_a_meeting_in_progress_moves() -> None:
    in_progress = of_anna(status="Confirmed", start_at=NOON - HOUR + MICROSECOND)

    from_anna_to_boris()

    assert owners(in_progress) == ({BORIS}, {2})


def test_what_is_manual_or_finished_or_of_others_stays() -> None:
    EventFactory.create(owner_user_id=ANNA)
    SlotFactory.create(owner_user_id=ANNA, start_at=NOON + 9 * DAY)
    an_open_appointment()
    of_anna(slot__tenant_id=OTHER_TENANT, start_at=NOON + 8 * DAY)
    of_anna(status="Expired", slot__status="Expired", calendar_event__status="Cancelled")
    a_deadline(status="Completed")
    a_deadline(tenant_id=OTHER_TENANT)
    before = state.everything()

    assert from_anna_to_boris() == Reassignment((), (), ())
    assert state.everything() == before


def test_from_then_on_the_new_owner_decides_and_the_old_one_is_a_stranger() -> None:
    appointment = of_anna()
    from_anna_to_boris()

    with pytest.raises(NotFound):
        decisions.change(appointment.id, Verb.CONFIRM, actor=owner_of(appointment), as_of=NOON)
    boris = Actor.user(BORIS, tenant_id=TENANT)
    assert decisions.change(appointment.id, Verb.CONFIRM, actor=boris, as_of=NOON).after.status == "Confirmed"


def test_there_and_back_again_leaves_one_open_event_of_the_first_owner_and_its_reminders_once() -> None:
    appointment = of_anna()
    from_anna_to_boris()

    reassign(tenant_id=TENANT, from_owner_id=BORIS, to_owner_id=ANNA, actor=ADMIN, as_of=NOON)

    assert owners(appointment) == ({ANNA}, {3})
    assert CalendarEvent.objects.get().status == "Scheduled"
    assert state.reminders_of(appointment.calendar_event) == [(60, "Pending", None), (1_440, "Pending", None)]
    assert state.topics() == ["appointment-reassigned"] * 2


def test_what_nobody_took_over_can_still_be_cancelled_and_expires() -> None:
    """The owner may be an agent who has left; nothing here asks."""
    cancelled, expired = of_anna(), an_overdue_appointment(slot__owner_user_id=ANNA)

    decisions.change(cancelled.id, Verb.CANCEL, actor=client_of(cancelled), as_of=NOON)

    assert TimeoutJob().cycle(as_of=NOON, limit=9, keep_going=lambda: True).expired_count == 1
    expired.refresh_from_db()
    assert expired.status == "Expired"


# Conflicts


@pytest.mark.parametrize("status", ["Available", "Booked"])
def test_by_hand_a_conflict_refuses_the_whole_and_names_the_appointments(status: str) -> None:
    free, conflicting = of_anna(start_at=NOON + 4 * DAY), of_anna()
    a_deadline()
    SlotFactory.create(owner_user_id=BORIS, start_at=conflicting.slot.end_at - MICROSECOND, status=status)
    before = state.everything()

    with pytest.raises(ReassignmentRefused) as caught:
        from_anna_to_boris()

    assert caught.value.facts["conflicts"] == [str(conflicting.id)]
    assert state.everything() == before
    assert owners(free) == ({ANNA}, {1})


def test_from_the_crm_a_conflicting_appointment_stays_and_is_recorded_and_the_rest_moves() -> None:
    free, conflicting, deadline = of_anna(start_at=NOON + 4 * DAY), of_anna(), a_deadline()
    SlotFactory.create(owner_user_id=BORIS, start_at=conflicting.slot.start_at)

    with correlated() as correlation:
        moved = from_anna_to_boris(actor=Actor.system())

    assert moved == Reassignment((free.id,), (free.calendar_event_id, deadline.id), (conflicting.id,))
    assert owners(free) == ({BORIS}, {2})
    assert owners(conflicting) == ({ANNA}, {1})
    conflict = ReassignmentConflict.objects.get()
    assert (conflict.appointment_id, conflict.tenant_id) == (conflicting.id, TENANT)
    assert (conflict.from_owner_user_id, conflict.to_owner_user_id) == (ANNA, BORIS)
    assert (conflict.correlation_id, conflict.created_at, conflict.resolved_at) == (correlation, NOON, None)
    assert state.topics() == ["appointment-reassigned"]


def test_a_conflict_is_recorded_once_however_often_the_crm_asks_and_resolved_when_the_appointment_moves() -> None:
    conflicting = of_anna()
    in_the_way = SlotFactory.create(owner_user_id=BORIS, start_at=conflicting.slot.start_at)

    from_anna_to_boris(actor=Actor.system())
    from_anna_to_boris(actor=Actor.system())

    assert ReassignmentConflict.objects.get().resolved_at is None
    publishing.withdraw(in_the_way.id, actor=owner_of(in_the_way), as_of=NOON)
    from_anna_to_boris(actor=Actor.system())
    assert ReassignmentConflict.objects.get().resolved_at == NOON
    assert ("Conflict", "resolve", "Open", "Resolved") in state.audited()


@pytest.mark.parametrize(
    "break_it",
    [
        "UPDATE availability_slots SET status = 'Withdrawn'",
        "UPDATE calendar_events SET origin = 'CrmDeadline', end_at = start_at",
    ],
)
def test_a_slot_or_an_event_that_is_not_its_own_is_an_error_of_that_appointment(
    break_it: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = of_anna()
    sql.execute(break_it)
    whole = of_anna(start_at=NOON + 4 * DAY)
    before = state.everything()

    with pytest.raises(Inconsistent, match=r"not Booked|of origin CrmDeadline"):
        from_anna_to_boris(actor=Actor.operator())
    assert state.everything() == before

    moved = from_anna_to_boris(actor=Actor.system())
    assert moved == Reassignment((whole.id,), (whole.calendar_event_id,), (broken.id,))
    assert owners(broken) == ({ANNA}, {1})
    assert owners(whole) == ({BORIS}, {2})
    assert ReassignmentConflict.objects.get().appointment_id == broken.id
    assert "item failed" in capsys.readouterr().err


def test_a_slot_back_to_back_or_no_longer_live_is_no_conflict() -> None:
    appointment = of_anna()
    SlotFactory.create(owner_user_id=BORIS, start_at=appointment.slot.end_at)
    SlotFactory.create(owner_user_id=BORIS, start_at=appointment.slot.start_at, status="Withdrawn")
    SlotFactory.create(owner_user_id=BORIS, start_at=appointment.slot.start_at, status="Expired")

    from_anna_to_boris()

    assert owners(appointment) == ({BORIS}, {2})


# Who


@pytest.mark.parametrize(
    "stranger",
    [
        Actor.user(ANNA, tenant_id=TENANT),
        Actor.user(BORIS, tenant_id=TENANT),
        Actor.tenant_admin(new_id(), tenant_id=OTHER_TENANT),
    ],
)
def test_an_owner_and_another_tenants_admin_cannot(stranger: Actor) -> None:
    appointment = of_anna()

    with pytest.raises(NotFound):
        from_anna_to_boris(actor=stranger)

    assert owners(appointment) == ({ANNA}, {1})


@pytest.mark.parametrize("actor", [ADMIN, Actor.operator(new_id()), Actor.system()])
def test_the_tenants_admin_an_operator_and_the_crm_can_and_the_audit_log_says_who(actor: Actor) -> None:
    of_anna()

    with correlated() as correlation:
        from_anna_to_boris(actor=actor)

    lines = AuditLine.objects.values_list("actor_kind", "actor_user_id", "occurred_at", "correlation_id")
    assert set(lines) == {(actor.kind.value, actor.user_id, NOON, correlation)}
    assert state.audited() == {
        ("Appointment", "reassign", "Pending", "Pending"),
        ("Slot", "reassign", "Booked", "Booked"),
        ("Event", "reassign", "Scheduled", "Scheduled"),
    }


def test_to_the_same_owner_is_refused() -> None:
    with pytest.raises(InvalidField):
        reassign(tenant_id=TENANT, from_owner_id=ANNA, to_owner_id=ANNA, actor=ADMIN, as_of=NOON)
