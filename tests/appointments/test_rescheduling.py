"""Moving an appointment to another slot of the same owner: no way round the agent's consent."""

import datetime
from collections.abc import Callable
from functools import partial

import pytest
from pytest_django import Settings

from appointments import rescheduling
from appointments.booking import LeadTimePassed, SlotTaken
from appointments.deadlines import DeadlineTooNear
from appointments.models import Appointment
from appointments.rescheduling import DeadlinePassed, OtherOwner, SameSlot
from core.actors import Actor
from core.errors import NotFound, Refused, VersionConflict
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot
from reminders.models import EventReminder
from tests.appointments import state
from tests.appointments.concurrently import together
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    AppointmentFactory,
    SlotFactory,
    an_open_appointment,
    client_of,
    owner_of,
)

pytestmark = pytest.mark.django_db


def a_slot_for(appointment: Appointment, **fields: object) -> AvailabilitySlot:
    """Another slot of the same owner, in five days."""
    return SlotFactory.create(**{"owner_user_id": appointment.owner_user_id, "start_at": NOON + 5 * DAY, **fields})


def move(
    appointment: Appointment,
    to: AvailabilitySlot,
    *,
    by: Actor | None = None,
    as_of: datetime.datetime = NOON,
    seen_version: int | None = None,
) -> Appointment:
    rescheduling.reschedule(
        appointment.id, to.id, actor=by or client_of(appointment), as_of=as_of, seen_version=seen_version
    )
    return Appointment.objects.get(pk=appointment.pk)


def test_the_event_goes_along_with_times_and_zone_and_keeps_title_and_offsets() -> None:
    appointment = an_open_appointment(
        calendar_event__title="Показ квартиры", calendar_event__reminder_offsets_minutes=[30]
    )
    to = a_slot_for(appointment, time_zone="Asia/Omsk")

    event = move(appointment, to).calendar_event

    assert event.pk == appointment.calendar_event_id
    assert (event.start_at, event.end_at, event.time_zone) == (to.start_at, to.end_at, "Asia/Omsk")
    assert (event.title, event.reminder_offsets_minutes) == ("Показ квартиры", [30])


def test_a_moved_event_earns_new_reminders_also_where_the_same_offset_was_sent() -> None:
    appointment = an_open_appointment()
    reminders = EventReminder.objects.filter(event=appointment.calendar_event)
    reminders.filter(offset_minutes=1_440).update(status="Sent", sent_at=NOON)
    before = set(reminders.values_list("id", flat=True))

    move(appointment, a_slot_for(appointment))

    assert state.reminders_of(appointment.calendar_event) == [
        (60, "Pending", None),
        (1_440, "Sent", None),
        (1_440, "Pending", None),
    ]
    assert set(reminders.filter(status="Pending").values_list("id", flat=True)).isdisjoint(before)


@pytest.mark.parametrize(("as_of_lead", "old_slot"), [(0 * MICROSECOND, "Available"), (MICROSECOND, "Expired")])
def test_the_slot_left_behind_is_released_by_the_release_rule(as_of_lead: datetime.timedelta, old_slot: str) -> None:
    appointment = an_open_appointment(status="Confirmed", start_at=NOON + HOUR - as_of_lead)

    move(appointment, a_slot_for(appointment), by=owner_of(appointment))

    assert AvailabilitySlot.objects.get(pk=appointment.slot_id).status == old_slot


# Where to


@pytest.mark.parametrize("status", ["Booked", "Expired", "Withdrawn"])
def test_only_to_an_available_slot(status: str) -> None:
    _refuses(SlotTaken, lambda appointment: a_slot_for(appointment, status=status))


def test_only_to_a_slot_of_the_same_owner() -> None:
    _refuses(OtherOwner, lambda appointment: SlotFactory.create())


def test_only_to_a_slot_of_the_same_tenant() -> None:
    _refuses(OtherOwner, lambda appointment: a_slot_for(appointment, tenant_id=OTHER_TENANT))


def test_only_to_another_slot() -> None:
    _refuses(SameSlot, lambda appointment: appointment.slot)


def test_only_to_a_slot_that_exists() -> None:
    _refuses(NotFound, lambda appointment: SlotFactory.build())


def test_only_to_a_slot_that_can_still_be_booked() -> None:
    _refuses(LeadTimePassed, lambda appointment: a_slot_for(appointment, start_at=NOON + HOUR - MICROSECOND))


def test_not_to_a_slot_that_has_a_live_appointment_whatever_its_status_says() -> None:
    def held_by_another(appointment: Appointment) -> AvailabilitySlot:
        to = a_slot_for(appointment)
        AppointmentFactory.create(slot=to)
        return to

    _refuses(SlotTaken, held_by_another)


def test_to_a_slot_at_the_very_instant_of_its_lead_time() -> None:
    appointment = an_open_appointment(status="Confirmed")

    moved = move(appointment, a_slot_for(appointment, start_at=NOON + HOUR), by=owner_of(appointment))

    assert moved.status == "Confirmed"


def _refuses(refusal: type[Refused], make_slot: Callable[[Appointment], AvailabilitySlot]) -> None:
    appointment = an_open_appointment()
    to = make_slot(appointment)
    before = state.everything()

    with pytest.raises(refusal):
        move(appointment, to)

    assert state.everything() == before


# Who, and from which version


def test_a_stranger_is_told_that_there_is_no_such_appointment() -> None:
    appointment = an_open_appointment()

    for stranger in (Actor.user(new_id()), Actor.user(appointment.owner_user_id, tenant_id=OTHER_TENANT)):
        with pytest.raises(NotFound):
            move(appointment, a_slot_for(appointment, start_at=NOON + 9 * DAY, status="Expired"), by=stranger)


def test_an_unknown_appointment_is_not_found() -> None:
    with pytest.raises(NotFound):
        rescheduling.reschedule(new_id(), SlotFactory.create().id, actor=Actor.operator(), as_of=NOON)


def test_a_stale_version_is_refused_and_changes_nothing() -> None:
    appointment = an_open_appointment()
    move(appointment, a_slot_for(appointment), seen_version=1)
    other = a_slot_for(appointment, start_at=NOON + 6 * DAY)
    before = state.everything()

    with pytest.raises(VersionConflict):
        move(appointment, other, seen_version=1)

    assert state.everything() == before


# The deadline after a move


@pytest.mark.parametrize(
    ("to_start_at", "deadline"),
    [(NOON + 5 * DAY, NOON + 23 * HOUR), (NOON + 6 * HOUR, NOON + 5 * HOUR), (NOON + HOUR, NOON)],
)
def test_a_pending_one_counts_its_day_from_the_request_and_no_later_than_the_new_slot_can_be_booked(
    to_start_at: datetime.datetime, deadline: datetime.datetime
) -> None:
    appointment = an_open_appointment()  # asked for an hour before NOON

    moved = move(appointment, a_slot_for(appointment, start_at=to_start_at))

    assert (moved.status, moved.pending_expires_at) == ("Pending", deadline)


@pytest.mark.parametrize("by", [client_of, owner_of])
def test_a_move_that_would_leave_a_deadline_in_the_past_is_refused(
    by: Callable[[Appointment], Actor],
) -> None:
    last_moment = an_open_appointment(pending_expires_at=NOON)
    too_late = an_open_appointment(pending_expires_at=NOON - MICROSECOND)

    assert move(last_moment, a_slot_for(last_moment), by=by(last_moment)).pending_expires_at == NOON
    to = a_slot_for(too_late)
    before = state.everything()
    with pytest.raises(DeadlinePassed) as caught:
        move(too_late, to, by=by(too_late))

    assert caught.value.code == "deadline_passed"
    assert state.everything() == before


def test_a_confirmed_one_that_returns_to_pending_counts_its_day_from_the_move() -> None:
    appointment = an_open_appointment(status="Confirmed", pending_expires_at=NOON - 2 * DAY)

    moved = move(appointment, a_slot_for(appointment))

    assert (moved.status, moved.pending_expires_at) == ("Pending", NOON + DAY)


@pytest.mark.parametrize("by", [client_of, owner_of])
def test_one_that_has_returned_to_pending_can_be_moved_again_and_keeps_its_day(
    by: Callable[[Appointment], Actor],
) -> None:
    appointment = an_open_appointment(status="Confirmed", created_at=NOON - 2 * DAY)
    move(appointment, a_slot_for(appointment))
    appointment.refresh_from_db()

    moved = move(appointment, a_slot_for(appointment, start_at=NOON + 6 * DAY), by=by(appointment), as_of=NOON + HOUR)

    assert (moved.status, moved.pending_expires_at) == ("Pending", NOON + DAY)


def test_an_auto_confirmed_one_that_returns_to_pending_gets_a_deadline() -> None:
    appointment = an_open_appointment(
        status="Confirmed", slot__auto_confirm=True, pending_expires_at=None, created_at=NOON - DAY
    )

    moved = move(appointment, a_slot_for(appointment, start_at=NOON + 3 * HOUR))

    assert (moved.status, moved.pending_expires_at) == ("Pending", NOON + 2 * HOUR)


def test_an_owners_move_to_an_auto_confirm_slot_is_no_confirmation() -> None:
    appointment = an_open_appointment()

    moved = move(appointment, a_slot_for(appointment, auto_confirm=True), by=owner_of(appointment))

    assert (moved.status, moved.pending_expires_at) == ("Pending", NOON + 23 * HOUR)


def test_a_client_moves_an_overdue_request_to_an_auto_confirm_slot_and_keeps_the_old_deadline_as_history() -> None:
    appointment = an_open_appointment(pending_expires_at=NOON - HOUR)

    moved = move(appointment, a_slot_for(appointment, auto_confirm=True))

    assert (moved.status, moved.pending_expires_at) == ("Confirmed", NOON - HOUR)
    assert state.topics() == ["appointment-rescheduled", "appointment-confirmed"]


def test_the_time_to_decide_holds_for_a_clients_move_and_not_for_the_owners(settings: Settings) -> None:
    settings.ENV = settings.ENV.model_copy(update={"appointment_min_decision_minutes": 30})
    appointment = an_open_appointment()
    near = a_slot_for(appointment, start_at=NOON + HOUR + 30 * MINUTE - MICROSECOND)

    with pytest.raises(DeadlineTooNear):
        move(appointment, near)

    assert move(appointment, near, by=owner_of(appointment)).slot_id == near.id


# At once


@pytest.mark.django_db(transaction=True)
def test_of_two_moves_to_one_slot_one_wins() -> None:
    first = an_open_appointment()
    second = an_open_appointment(slot__owner_user_id=first.owner_user_id, start_at=NOON + 4 * DAY)
    to = a_slot_for(first)

    outcomes = together(*(partial(move, appointment, to) for appointment in (first, second)))

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Appointment", "SlotTaken"]
    assert AvailabilitySlot.objects.get(pk=to.pk).version == 2


@pytest.mark.django_db(transaction=True)
def test_moves_that_cross_do_not_deadlock() -> None:
    first = an_open_appointment()
    second = an_open_appointment(slot__owner_user_id=first.owner_user_id, start_at=NOON + 4 * DAY)
    crossing = [partial(move, first, second.slot), partial(move, second, first.slot)] * 8

    outcomes = together(*crossing)

    assert {type(outcome) for outcome in outcomes} == {SlotTaken}
