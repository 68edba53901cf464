"""The database cuts a session, restarts or crashes under the real workers: they go on by themselves."""

from contextlib import ExitStack

import pytest
from django.db import connection

from appointments.models import Appointment
from core import clock, sql
from crm.models import Deadline
from dev.postgres import EmbeddedPostgres
from notifications.models import Delivery
from reminders.models import EventReminder
from tests import bulk, gates
from tests.appointments import state
from tests.faults.telling import CRM, NOTIFY, a_deadline
from tests.gates import gate
from tests.invariants import violations
from tests.kafka_writer import Writer
from tests.notifications.people import a_reminder_ahead
from tests.processes import DISPATCH, TIMEOUT, run_to_end, running
from tests.waiting import eventually
from tests.workers.processes import database_url
from workers.models import ProcessedMessage

pytestmark = pytest.mark.django_db(transaction=True)

ITEMS = 5


def cut(pid: int) -> None:
    [(was_cut,)] = sql.fetch("SELECT pg_terminate_backend(%s, 5000)", [pid])
    assert was_cut


def pending() -> int:
    return Appointment.objects.filter(status="Pending").count()


def unsent() -> int:
    return EventReminder.objects.filter(status="Pending").count()


@pytest.mark.parametrize(("command", "count_left"), [(TIMEOUT, pending), (DISPATCH, unsent)])
def test_a_session_that_is_cut_in_mid_cycle_costs_that_cycle_only(command, count_left):
    bulk.overdue_appointments(ITEMS, as_of=clock.now(), lead_passed_every=1)

    with (
        gate("INSERT outbox_messages") as closed,
        running(command, "--interval=0.2", PIN_PROCESS_NAME=gates.NAME) as worker,
    ):
        cut(closed.wait_until_reached())
        failed_at = worker.wait_for_event("cycle failed")
        worker.wait_for_event("cycle completed", after=failed_at)
        eventually(lambda: count_left() == 0, "all is done")
        assert worker.process.poll() is None

    assert "item failed" not in worker.events()
    assert len(state.told()) == 2 * ITEMS
    assert violations() == []


@pytest.mark.parametrize(
    ("command", "done", "count_left"), [(TIMEOUT, "appointment expired", pending), (DISPATCH, "reminder-sent", unsent)]
)
def test_a_session_that_is_cut_while_the_worker_sleeps_is_replaced_at_the_next_tick(command, done, count_left):
    with running(command, "--interval=3", PIN_PROCESS_NAME=gates.NAME) as worker:
        slept_at = worker.wait_for_event("cycle completed")
        [(pid,)] = eventually(
            lambda: sql.fetch(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state = 'idle'", [gates.NAME]
            ),
            "the worker's session is idle",
        )
        cut(pid)
        bulk.overdue_appointments(ITEMS, as_of=clock.now(), lead_passed_every=1)
        worker.wait_for_event(done, after=slept_at)
        eventually(lambda: count_left() == 0, "all is done")

    assert "cycle failed" not in worker.events()
    assert violations() == []


@pytest.mark.parametrize("outage", [EmbeddedPostgres.stop, EmbeddedPostgres.kill], ids=["restart", "crash"])
def test_a_restart_of_postgresql_under_workers_and_consumers(
    outage, embedded_postgres: EmbeddedPostgres, group_prefix: str, writer: Writer
):
    bulk.overdue_appointments(ITEMS, as_of=clock.now(), lead_passed_every=1)
    with ExitStack() as stack:
        timeout, dispatch, notify, crm = workers = [
            stack.enter_context(running(command, "--interval=0.2", KAFKA_CONSUMER_GROUP_PREFIX=group_prefix))
            for command in (TIMEOUT, DISPATCH, NOTIFY, CRM)
        ]
        for worker in (timeout, dispatch):
            worker.wait_for_event("cycle completed")
        for worker in (notify, crm):
            worker.wait_for_event("partitions assigned")

        outage(embedded_postgres)
        writer.tell(a_reminder_ahead(), a_deadline())
        failed_at = [worker.wait_for_event("cycle failed") for worker in workers]
        embedded_postgres.start()
        connection.close()
        bulk.overdue_appointments(ITEMS, as_of=clock.now(), lead_passed_every=1)

        for worker, place in zip(workers, failed_at, strict=True):
            worker.wait_for_event("cycle completed", after=place)
        eventually(lambda: pending() == unsent() == 0, "all is done", timeout=20)
        assert [worker.process.poll() for worker in workers] == [None] * 4

    assert (Delivery.objects.count(), Deadline.objects.count()) == (2, 1)
    assert ProcessedMessage.objects.count() == 2
    assert violations() == []


@pytest.mark.parametrize("command", [TIMEOUT, DISPATCH])
def test_without_a_database_once_exits_1_with_a_sentence(command):
    code, worker = run_to_end(command, "--once", DATABASE_URL=database_url(HOST="127.0.0.1", PORT=1))

    assert (code, worker.said) == (1, [])
    assert worker.events()[-1].startswith("CommandError: A dependency is away: OperationalError: connection failed")


def test_a_worker_that_starts_before_its_database_begins_when_that_is_there(embedded_postgres: EmbeddedPostgres):
    bulk.overdue_appointments(ITEMS, as_of=clock.now())
    embedded_postgres.stop()
    with running(TIMEOUT, "--interval=0.2") as worker:
        failed_at = worker.wait_for_event("cycle failed")
        embedded_postgres.start()
        connection.close()
        worker.wait_for_event("cycle completed", after=failed_at)
        eventually(lambda: pending() == 0, "all is done")

    assert violations() == []
