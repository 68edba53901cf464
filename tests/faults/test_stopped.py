"""SIGTERM to the real workers: exit 0 within five seconds, the item in hand whole or not at all."""

import signal

import pytest

from appointments.models import Appointment
from core import clock
from reminders.models import EventReminder
from tests import bulk, gates
from tests.appointments import state
from tests.faults.telling import CRM, NOTIFY, a_deadline
from tests.gates import gate
from tests.invariants import violations
from tests.notifications.people import a_reminder_ahead
from tests.processes import DISPATCH, TIMEOUT, run_here, running, sessions
from tests.waiting import eventually
from tests.workers.processes import Worker
from workers.models import ProcessedMessage

pytestmark = pytest.mark.django_db(transaction=True)

PATIENT = {"PIN_PROCESS_NAME": gates.NAME, "DATABASE_LOCK_TIMEOUT_MS": "0"}
LIMIT_SECONDS = 5


def stop(worker: Worker) -> int:
    """The exit code; raises TimeoutExpired past what the specification allows."""
    worker.process.send_signal(signal.SIGTERM)
    return worker.end(timeout=LIMIT_SECONDS)


def sent() -> int:
    return EventReminder.objects.filter(status="Sent").count()


def expired() -> int:
    return Appointment.objects.filter(status="Expired").count()


@pytest.mark.parametrize("command", [TIMEOUT, DISPATCH])
def test_asleep(command):
    with running(command, "--interval=300") as worker:
        worker.wait_for_event("cycle completed")

        assert stop(worker) == 0

    assert worker.events()[-1] == "worker stopped"


@pytest.mark.parametrize("command", [NOTIFY, CRM])
def test_a_consumer_asleep(command, group_prefix):
    with running(command, "--interval=300", KAFKA_CONSUMER_GROUP_PREFIX=group_prefix) as worker:
        worker.wait_for_event("partitions assigned")

        assert stop(worker) == 0

    assert worker.events()[-2:] == ["worker stopped", "partitions revoked"]


@pytest.mark.parametrize(
    ("command", "flags", "count_done", "done"),
    [(TIMEOUT, ("--chunk-size=2",), expired, 2), (DISPATCH, ("--batch-size=3",), sent, 3)],
)
def test_while_a_statement_hangs_its_item_is_rolled_back_and_no_error(command, flags, count_done, done):
    bulk.overdue_appointments(4, as_of=clock.now(), lead_passed_every=1)

    with gate("INSERT outbox_messages", visit=2) as closed, running(command, *flags, **PATIENT) as worker:
        closed.wait_until_reached()
        assert stop(worker) == 0
        eventually(lambda: not sessions(gates.NAME), "the server has ended the session")

    assert count_done() == done
    assert worker.events(level="error") == []
    assert "cancelling the running statement" in worker.events()
    assert worker.events()[-2:] == ["cycle stopped", "worker stopped"]
    assert violations() == []


@pytest.mark.parametrize(
    ("command", "flags", "count_done", "done"),
    [(TIMEOUT, ("--once", "--drain"), expired, 2), (DISPATCH, ("--batch-size=3",), sent, 6)],
)
def test_at_work_the_item_in_hand_is_committed_and_no_other_begun(command, flags, count_done, done):
    bulk.overdue_appointments(6, as_of=clock.now(), lead_passed_every=1)

    with gate("INSERT outbox_messages", visit=2) as closed, running(command, *flags, **PATIENT) as worker:
        closed.wait_until_reached()
        worker.process.send_signal(signal.SIGTERM)
        closed.open()
        assert worker.end(timeout=LIMIT_SECONDS) == 0

    assert count_done() == done
    assert len(state.told()) == (2 * done if command == TIMEOUT else done)
    assert worker.events(level="error") == []
    assert violations() == []


@pytest.mark.parametrize(("command", "a_message"), [(NOTIFY, a_reminder_ahead), (CRM, a_deadline)])
def test_a_consumer_at_work_ends_with_the_message_in_hand_and_its_heir_begins_with_the_next(
    command, a_message, group_prefix, writer
):
    writer.tell(a_message(), a_message(), a_message())
    group = {"KAFKA_CONSUMER_GROUP_PREFIX": group_prefix}

    with gate("INSERT processed_messages", visit=2) as closed, running(command, **group, **PATIENT) as worker:
        closed.wait_until_reached()
        worker.process.send_signal(signal.SIGTERM)
        closed.open()
        assert worker.end(timeout=LIMIT_SECONDS) == 0

    assert ProcessedMessage.objects.count() == 2
    assert worker.events(level="error") == []
    heir = run_here(command)
    assert (heir["handledCount"], heir["repeatedCount"]) == (1, 0)
    assert violations() == []


def test_a_second_signal_ends_it_at_once_and_the_item_is_rolled_back():
    bulk.overdue_appointments(3, as_of=clock.now())

    with gate("INSERT outbox_messages", visit=2) as closed, running(TIMEOUT, **PATIENT) as worker:
        closed.wait_until_reached()
        worker.process.send_signal(signal.SIGTERM)
        worker.process.send_signal(signal.SIGINT)
        assert worker.end(timeout=LIMIT_SECONDS) in {128 + signal.SIGINT, 128 + signal.SIGTERM}
        closed.open()
        eventually(lambda: not sessions(gates.NAME), "the server has ended the session")

    assert expired() == 1
    assert violations() == []
