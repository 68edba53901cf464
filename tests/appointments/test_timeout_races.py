"""Several workers, owners and clients at the same items: whoever commits first wins, and each item once."""

from functools import partial

import pytest

from appointments import booking, decisions
from appointments.booking import SlotTaken
from appointments.lifecycle import NotAllowed
from appointments.matrix import Verb
from appointments.models import Appointment
from core import sql
from core.actors import Actor
from core.ids import new_id
from tests import bulk
from tests.appointments import state
from tests.appointments.concurrently import together
from tests.appointments.timeouts import expire, statuses
from tests.factories import NOON, an_overdue_appointment, client_of, owner_of
from tests.invariants import violations

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 6


@pytest.mark.parametrize(("instances", "chunk_size"), [(2, 1), (8, 1), (4, 25)])
def test_instances_that_run_at_once_expire_each_item_once_with_one_pair_of_messages(
    instances: int, chunk_size: int
) -> None:
    bulk.overdue_appointments(160)

    results = together(*[partial(expire, chunk_size=chunk_size, limit=1_000)] * instances)

    assert [result.failed_count for result in results] == [0] * instances
    assert sum(result.expired_count for result in results) == 160
    assert statuses() == {"Expired": 160}
    told = sql.fetch("SELECT topic, count(*), count(DISTINCT key) FROM outbox_messages GROUP BY topic ORDER BY topic")
    assert told == [
        ("pin.calendar.appointment-cancelled.v1", 160, 160),
        ("pin.calendar.event-status-changed.v1", 160, 160),
    ]
    assert sql.fetch("SELECT DISTINCT version FROM appointments") == [(2,)]
    assert violations() == []


def test_of_a_confirm_and_the_worker_one_wins_whole() -> None:
    for _ in range(ROUNDS):
        appointment = an_overdue_appointment()
        confirm = partial(decisions.change, appointment.id, Verb.CONFIRM, actor=owner_of(appointment), as_of=NOON)

        confirmed, result = together(confirm, expire)

        status = Appointment.objects.get(pk=appointment.pk).status
        if isinstance(confirmed, NotAllowed):
            assert (status, result.expired_count, confirmed.facts["status"]) == ("Expired", 1, "Expired")
        else:
            assert (status, result.expired_count) == ("Confirmed", 0)
    transitions = sql.fetch("SELECT count(*) FROM audit_log WHERE aggregate = 'Appointment'")
    assert transitions == [(ROUNDS,)]
    assert violations() == []


def test_of_a_cancel_a_decline_and_the_worker_one_wins_and_its_messages_alone_are_told() -> None:
    for _ in range(ROUNDS):
        appointment = an_overdue_appointment()
        together(
            partial(decisions.change, appointment.id, Verb.CANCEL, actor=client_of(appointment), as_of=NOON),
            partial(decisions.change, appointment.id, Verb.DECLINE, actor=owner_of(appointment), as_of=NOON),
            expire,
        )

    told = [payload["appointmentId"] for topic, payload in state.told() if topic == "appointment-cancelled"]
    assert len(told) == len(set(told)) == ROUNDS
    assert sum(statuses().values()) == ROUNDS
    assert "Pending" not in statuses()
    assert violations() == []


def test_a_booking_that_races_the_release_has_the_slot_after_it_or_not_at_all() -> None:
    for _ in range(ROUNDS):
        overdue = an_overdue_appointment()
        book = partial(booking.book, overdue.slot_id, actor=Actor.user(new_id()), as_of=NOON)

        booked, result = together(book, expire)

        if isinstance(booked, SlotTaken) and result.skipped_locked_count:  # the booking was looking at the slot
            result = expire()
        assert result.expired_count == 1
        overdue.slot.refresh_from_db()
        if isinstance(booked, SlotTaken):
            assert overdue.slot.status == "Available"
        else:
            assert (booked.status, overdue.slot.status) == ("Pending", "Booked")
    assert violations() == []
