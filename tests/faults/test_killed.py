"""kill -9 of the real workers at every statement of an item: nothing is lost, nothing doubled, nothing half done."""

import pytest

from appointments.models import Appointment
from core import clock
from reminders.models import EventReminder
from tests import bulk, gates
from tests.appointments import state
from tests.faults.telling import assert_relayed_whole
from tests.gates import gate
from tests.invariants import violations
from tests.processes import DISPATCH, TIMEOUT, run_here, running, sessions
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

PATIENT = {"PIN_PROCESS_NAME": gates.NAME, "DATABASE_LOCK_TIMEOUT_MS": "0"}
ITEMS = 6


def kill_at(point: str, *, visit: int, command: str, flags: tuple[str, ...]) -> None:
    """kill -9 before the statement; the server goes on with it and only then finds that nobody is there."""
    with gate(point, visit=visit) as closed, running(command, *flags, **PATIENT) as worker:
        closed.wait_until_reached()
        worker.process.kill()
        worker.end(timeout=20)
        closed.open()
        eventually(lambda: not sessions(gates.NAME), "the server has ended the session")


# The second item's statement; rows of the second item's commit (two a commit); the cycle's own record after its end.
@pytest.mark.parametrize(
    ("point", "visit", "chunk_size", "done"),
    [
        ("UPDATE appointments", 2, 1, 1),
        ("UPDATE availability_slots", 2, 1, 1),
        ("UPDATE calendar_events", 2, 1, 1),
        ("UPDATE event_reminders", 2, 1, 1),
        ("INSERT audit_log", 2, 1, 1),
        ("INSERT outbox_messages", 2, 1, 1),
        ("INSERT outbox_ready", 2, 1, 1),
        ("COMMIT outbox_ready", 3, 1, 2),
        ("INSERT job_runs", 1, 1, ITEMS),
        ("INSERT outbox_ready", 2, 4, 4),
        ("COMMIT outbox_ready", 1, 4, 4),
    ],
)
def test_the_timeout_worker_is_killed_and_started_again(point, visit, chunk_size, done, bootstrap):
    bulk.overdue_appointments(ITEMS, as_of=clock.now())
    flags = ("--drain", f"--chunk-size={chunk_size}")

    kill_at(point, visit=visit, command=TIMEOUT, flags=("--once", *flags))

    assert Appointment.objects.filter(status="Expired").count() == done
    assert len(state.told()) == 2 * done
    assert violations() == []

    assert run_here(TIMEOUT, *flags)["expiredCount"] == ITEMS - done
    assert Appointment.objects.filter(status="Expired").count() == ITEMS
    assert sorted(state.topics()) == ["appointment-cancelled"] * ITEMS + ["event-status-changed"] * ITEMS
    assert violations() == []
    assert_relayed_whole(bootstrap)


@pytest.mark.parametrize(
    ("point", "visit", "done"),
    [
        ("UPDATE event_reminders", 2, 4),
        ("INSERT outbox_messages", 2, 4),
        ("INSERT outbox_ready", 2, 4),
        ("COMMIT outbox_ready", 5, 8),
        ("INSERT job_runs", 1, 2 * ITEMS),
    ],
)
def test_the_dispatcher_is_killed_and_started_again(point, visit, done, bootstrap):
    bulk.overdue_appointments(ITEMS, as_of=clock.now(), lead_passed_every=1)

    kill_at(point, visit=visit, command=DISPATCH, flags=("--once", "--batch-size=4"))

    assert EventReminder.objects.filter(status="Sent").count() == done
    assert state.topics() == ["reminder-due"] * done
    assert violations() == []

    assert run_here(DISPATCH)["sentCount"] == 2 * ITEMS - done
    assert EventReminder.objects.filter(status="Sent").count() == 2 * ITEMS
    assert state.topics() == ["reminder-due"] * 2 * ITEMS
    assert violations() == []
    assert_relayed_whole(bootstrap)
