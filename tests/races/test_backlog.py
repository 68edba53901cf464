"""Real processes, started in one moment on one backlog: each item is done by exactly one of them."""

import pytest

from appointments.models import Appointment
from core import clock
from reminders.models import EventReminder
from tests import bulk
from tests.appointments import state
from tests.invariants import violations
from tests.processes import DISPATCH, TIMEOUT, run_together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]

PATIENT = "--max-duration=300"
"""On a machine that is busy otherwise a cycle must not end for want of time, and the drain with it."""


def test_eight_timeout_workers_expire_each_of_5000_once_with_one_pair_of_messages():
    bulk.overdue_appointments(5_000, as_of=clock.now())

    results = run_together(8, TIMEOUT, "--once", "--drain", PATIENT, waiting_for="appointments")

    assert sum(result["expiredCount"] for result in results) == 5_000
    assert sum(result["slotsReleasedCount"] for result in results) == 2_500
    assert sum(result["failedCount"] for result in results) == 0
    assert len([result for result in results if result["expiredCount"]]) > 1
    assert Appointment.objects.filter(status="Expired").count() == 5_000
    cancelled = [body["appointmentId"] for topic, body in state.told() if topic == "appointment-cancelled"]
    finished = [body["eventId"] for topic, body in state.told() if topic == "event-status-changed"]
    assert len(cancelled) == len(set(cancelled)) == len(finished) == len(set(finished)) == 5_000
    assert violations() == []


def test_ac6_four_dispatchers_send_each_of_20000_once():
    bulk.overdue_appointments(10_000, as_of=clock.now(), lead_passed_every=1)

    results = run_together(4, DISPATCH, "--once", PATIENT, waiting_for="event_reminders")

    assert sum(result["sentCount"] for result in results) == 20_000
    assert sum(result["failedCount"] for result in results) == 0
    assert len([result for result in results if result["sentCount"]]) > 1
    assert EventReminder.objects.filter(status="Sent").count() == 20_000
    sent = [body["reminderId"] for topic, body in state.told() if topic == "reminder-due"]
    assert len(sent) == len(set(sent)) == 20_000
    assert violations() == []
