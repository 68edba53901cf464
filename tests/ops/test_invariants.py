"""The invariants: nothing wrong in a healthy state, and each broken rule of slots and appointments found by its id."""

import pytest

from appointments.matrix import MATRIX, EventEffect, Verb
from appointments.models import AppointmentStatus
from contracts.calendar import EventStatusChanged
from core import sql
from core.ids import new_id
from ops import expectations
from ops.invariants import INVARIANTS
from tests.factories import DAY, MINUTE, NOON, an_overdue_appointment
from tests.ops import lives
from tests.ops.breaking import change, faults, findings, forget, without


@pytest.mark.django_db
def test_a_state_made_by_the_use_cases_breaks_nothing():
    lives.all_of_them()

    found = findings()

    assert {name: finding.first_faults for name, finding in found.items() if finding.violation_count} == {}
    never_asked = {name for name, finding in found.items() if finding.checked_count == 0}
    assert never_asked == set()


@pytest.mark.django_db
def test_an_empty_database_breaks_nothing():
    assert [(finding.checked_count, finding.violation_count) for finding in findings().values()] == [(0, 0)] * len(
        INVARIANTS
    )


@pytest.mark.django_db
def test_an_imported_appointment_is_told_of_but_breaks_nothing():
    appointment = an_overdue_appointment(pending_expires_at=NOON - MINUTE)

    assert faults("not booked") == [str(appointment.id)]
    assert not any(finding.is_violated for finding in findings().values())


@pytest.mark.django_db
def test_late_work_is_a_warning():
    appointment = lives.a_request()
    late = NOON + 2 * DAY

    found = findings(as_of=late)

    assert [fault.id for fault in found["late appointments"].first_faults] == [str(appointment.id)]
    assert found["late reminders"].violation_count == 2
    assert not any(finding.is_violated for finding in found.values())


def test_each_status_has_one_meaning_in_the_matrix():
    assert sorted(status for status, _ in expectations.EVENT_STATUSES) == sorted(AppointmentStatus.values)
    assert not expectations.LEAVES_BOOKED & expectations.GIVES_BACK
    assert {"Declined", "Cancelled", "Expired", "Completed", "NoShow"} == expectations.TERMINAL


def test_each_transition_is_told_alike_by_all_rows_of_the_matrix():
    for row in MATRIX:
        for from_ in row.from_ or [""]:
            assert expectations.TOLD_BY[row.verb.value, str(from_), row.to.value] == row.messages


def test_the_matrix_tells_an_events_status_exactly_where_it_ends():
    """So the messages of events can be proven from the events, for all origins alike."""
    for row in MATRIX:
        assert (EventStatusChanged in row.messages) == (row.event in (EventEffect.CANCEL, EventEffect.COMPLETE))


@pytest.mark.django_db
class TestSlots:
    def test_a_booked_slot_that_nobody_holds(self):
        slot = lives.a_slot()
        change("availability_slots", slot.id, status="'Booked'")

        assert faults("INV-SLT-3") == [str(slot.id)]

    @pytest.mark.parametrize("verb", [None, Verb.CONFIRM, Verb.COMPLETE, Verb.NO_SHOW])
    def test_a_slot_that_is_held_and_not_booked(self, verb):
        match verb:
            case Verb.COMPLETE | Verb.NO_SHOW:
                appointment = lives.held_then(verb)
            case None:
                appointment = lives.a_request()
            case _:
                appointment = lives.decide(lives.a_request(), verb)
        change("availability_slots", appointment.slot_id, status="'Available'")

        assert faults("INV-SLT-3") == [str(appointment.slot_id)]

    def test_two_live_appointments_of_a_slot(self):
        first, second = lives.a_request(), lives.a_request()
        without("DROP INDEX uq_appointments_inv_slt_3_one_live_a_slot")
        change("appointments", second.id, slot_id=f"'{first.slot_id}'")

        assert set(faults("INV-SLT-3")) == {str(first.slot_id), str(second.slot_id)}

    @pytest.mark.parametrize("verb", [Verb.DECLINE, Verb.CANCEL])
    def test_a_slot_that_was_not_given_back(self, verb):
        appointment = lives.decide(lives.a_request(), verb)
        change("availability_slots", appointment.slot_id, status="'Booked'")

        assert faults("INV-SLT-5 given back") == [str(appointment.id)]

    def test_a_slot_that_was_given_back_may_be_booked_again(self):
        slot = lives.a_slot()
        lives.decide(lives.a_request(slot), Verb.DECLINE)
        lives.a_request(slot)

        assert faults("INV-SLT-5 given back") == []

    def test_a_slot_that_was_given_back_too_late(self):
        appointment = lives.decide(lives.a_request(), Verb.DECLINE)
        change("availability_slots", appointment.slot_id, min_lead_time_minutes=100_000)

        assert faults("INV-SLT-5 release rule") == [str(appointment.slot_id)]

    @pytest.mark.parametrize("broken", [{"status": "'Available'"}, {"min_lead_time_minutes": 0}])
    def test_a_slot_whose_time_was_over_and_is_not(self, broken):
        slot = lives.a_slot(start_at=NOON)
        appointment = lives.decide(lives.a_request(slot, as_of=NOON - 3 * DAY), Verb.CANCEL, as_of=NOON - 10 * MINUTE)
        assert faults("INV-SLT-5 release rule") == []

        change("availability_slots", appointment.slot_id, **broken)

        assert faults("INV-SLT-5 release rule") == [str(appointment.slot_id)]

    def test_a_slot_that_left_booked_by_another_way(self):
        appointment = lives.decide(lives.a_request(), Verb.DECLINE)
        sql.execute("UPDATE audit_log SET to_status = 'Withdrawn' WHERE aggregate = 'Slot' AND verb = 'decline'")

        assert faults("INV-SLT-5 release rule") == [str(appointment.slot_id)]


@pytest.mark.django_db
class TestAppointments:
    @pytest.mark.parametrize(
        ("verb", "broken"),
        [
            (Verb.DECLINE, {"status": "'Scheduled'"}),
            (Verb.CANCEL, {"status": "'Completed'"}),
            (Verb.CONFIRM, {"status": "'Cancelled'"}),
            (Verb.DECLINE, {"cancel_reason": "''"}),
            (Verb.DECLINE, {"cancel_reason": "'иная'"}),
        ],
    )
    def test_an_event_that_does_not_follow_its_appointment(self, verb, broken):
        appointment = lives.decide(lives.a_request(), verb)
        change("calendar_events", appointment.calendar_event_id, **broken)

        assert faults("INV-APT-6 state") == [str(appointment.id)]

    def test_a_pending_reminder_of_a_finished_event(self):
        appointment = lives.decide(lives.a_request(), Verb.DECLINE)
        sql.execute("UPDATE event_reminders SET status = 'Pending', skip_reason = NULL WHERE skip_reason <> 'past'")

        assert faults("INV-APT-6 reminders") == [str(appointment.calendar_event_id)]

    def test_an_end_without_an_audit_line(self):
        appointment = lives.decide(lives.a_request(), Verb.DECLINE)
        forget("audit_log", "aggregate_id = %s AND verb = 'decline'", appointment.id)

        assert faults("INV-APT-6 history") == [str(appointment.id)]

    @pytest.mark.parametrize(
        "broken",
        [
            {"status": "'Pending'", "pending_expires_at": "created_at"},
            {"version": 5},
        ],
    )
    def test_a_state_that_no_transition_led_to(self, broken):
        appointment = lives.decide(lives.a_request(), Verb.CONFIRM)
        change("appointments", appointment.id, **broken)

        assert faults("INV-APT-6 history") == [str(appointment.id)]

    @pytest.mark.parametrize("broken", [{"verb": "'expire'"}, {"from_status": "'Confirmed'"}, {"from_status": "''"}])
    def test_a_transition_that_the_matrix_does_not_have(self, broken):
        appointment = lives.decide(lives.a_request(), Verb.CONFIRM)
        [(line,)] = sql.fetch("SELECT id FROM audit_log WHERE aggregate_id = %s AND verb = 'confirm'", [appointment.id])
        change("audit_log", line, **broken)

        assert faults("INV-APT-6 history") == [str(appointment.id)]

    @pytest.mark.parametrize("topic", ["booked", "cancelled"])
    def test_a_message_that_is_missing(self, topic):
        appointment = lives.decide(lives.a_request(), Verb.CANCEL)
        forget("outbox_messages", "topic = %s", f"pin.calendar.appointment-{topic}.v1")

        assert faults("INV-APT-6 messages") == [str(appointment.id)]

    def test_an_event_status_that_is_not_told(self):
        appointment = lives.decide(lives.a_request(), Verb.CANCEL)
        forget("outbox_messages", "topic = 'pin.calendar.event-status-changed.v1'")

        assert faults("INV-CAL-3 told") == [str(appointment.calendar_event_id)]

    def test_a_message_that_no_transition_accounts_for(self):
        lives.a_request()
        stranger = new_id()
        sql.execute("UPDATE outbox_messages SET key = %s", [stranger])

        assert str(stranger) in faults("INV-APT-6 messages")

    def test_messages_older_than_the_retention_are_not_asked_for(self):
        lives.lapsed()
        lives.reminded()
        forget("outbox_messages", "true")
        forget("outbox_ready", "true")

        assert faults("INV-APT-6 messages", as_of=NOON) != []
        assert [
            name for name, finding in findings(as_of=NOON + 7 * DAY + 2 * MINUTE).items() if finding.is_violated
        ] == []

    @pytest.mark.parametrize(
        ("word", "replacement"),
        [
            ("CancelledByClient", "CancelledByOwner"),
            ('"slotOutcome":"Released"', '"slotOutcome":"Expired"'),
            ('"aggregateVersion":2', '"aggregateVersion":3'),
            ("{", "no JSON {"),
        ],
    )
    def test_a_message_that_says_something_else(self, word, replacement):
        appointment = lives.decide(lives.a_request(), Verb.CANCEL)
        sql.execute(
            "UPDATE outbox_messages SET payload = replace(payload, %s, %s) WHERE topic LIKE '%%cancelled%%'",
            [word, replacement],
        )

        assert faults("INV-APT-6 payloads") == [str(appointment.id)]

    def test_a_message_with_the_wrong_outcome(self):
        appointment = lives.held_then(Verb.NO_SHOW)
        sql.execute("UPDATE outbox_messages SET payload = replace(payload, 'NoShow', 'Completed')")

        assert faults("INV-APT-6 payloads") == [str(appointment.id)]

    def test_a_request_that_lapses_after_its_slot_can_be_booked(self):
        appointment = lives.a_request()
        change("appointments", appointment.id, pending_expires_at="pending_expires_at + interval '1 hour'")

        assert faults("INV-APT-6 deadline") == [str(appointment.id)]
