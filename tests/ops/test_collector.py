"""What the web's /metrics tells of the workers."""

import datetime
from typing import Any

import pytest
from django.db import connection
from prometheus_client.parser import text_string_to_metric_families

from core import clock, sql
from core.ids import new_id
from ops.collector import READINGS
from tests.admin.rows import a_conflict
from tests.factories import DAY, HOUR, MINUTE, NOON, an_open_appointment, an_overdue_appointment
from tests.ops import lives
from workers.models import JobRun, Outcome


def scrape(client: Any) -> dict[str, float]:
    """The samples without labels, by name."""
    response = client.get("/metrics")
    assert response.status_code == 200
    families = text_string_to_metric_families(response.content.decode())
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def a_run(job: str, *, ended_at: datetime.datetime, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    JobRun.objects.create(
        id=new_id(),
        job=job,
        instance="here:1",
        as_of=ended_at - MINUTE,
        started_at=ended_at - MINUTE,
        duration_ms=60_000,
        outcome=outcome,
    )


@pytest.fixture(autouse=True)
def _noon(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: NOON)


@pytest.mark.django_db
def test_backlogs_and_ages_are_told_without_any_worker(client):
    an_overdue_appointment(pending_expires_at=NOON - 5 * MINUTE)
    an_overdue_appointment(pending_expires_at=NOON - 2 * MINUTE)
    lives.a_request(as_of=NOON - HOUR)
    sql.execute("UPDATE event_reminders SET due_at = %s WHERE offset_minutes = 60", [NOON - 3 * MINUTE])

    seen = scrape(client)

    assert seen["calendar_appointment_timeout_backlog"] == 2
    assert seen["calendar_appointment_timeout_oldest_overdue_age_seconds"] == 300
    assert seen["calendar_reminder_dispatch_backlog_oldest_age_seconds"] == 180
    assert seen["calendar_outbox_ready"] == 1
    assert seen["calendar_outbox_oldest_age_seconds"] == 3_600


@pytest.mark.django_db
def test_parked_messages_are_told(client):
    sql.execute(
        "INSERT INTO outbox_parked (id, topic, key, parked_at) VALUES (1, 't', 'k', %s), (2, 't', 'k', %s)",
        [NOON, NOON],
    )
    sql.execute(
        """
        INSERT INTO outbox_blocked_keys (topic, key, shard, reason, error, attempt_count, blocked_at, next_attempt_at)
        VALUES ('t', 'k', 0, 'too_large', '', 1, %s, %s)
        """,
        [NOON, NOON],
    )

    seen = scrape(client)

    assert (seen["calendar_outbox_parked"], seen["calendar_outbox_blocked_keys"]) == (2, 1)


@pytest.mark.django_db
def test_conflicts_are_told_while_somebody_must_decide(client):
    a_conflict()
    a_conflict(resolved_at=NOON)
    a_conflict(appointment=an_open_appointment(status="Cancelled", cancelled_by="Client"))
    a_conflict(appointment=an_open_appointment(status="Confirmed", start_at=NOON - DAY))

    assert scrape(client)["calendar_reassignment_conflicts_open"] == 1


@pytest.mark.django_db
def test_the_last_success_is_that_of_the_runs_recorded(client):
    a_run("appointment-timeout", ended_at=NOON - 7 * MINUTE)
    a_run("appointment-timeout", ended_at=NOON - 9 * MINUTE)
    a_run("appointment-timeout", ended_at=NOON - MINUTE, outcome=Outcome.FAILED)
    a_run("reminder-dispatch", ended_at=NOON - 4 * MINUTE)

    seen = scrape(client)

    assert seen["calendar_appointment_timeout_last_success_timestamp_seconds"] == (NOON - 7 * MINUTE).timestamp()
    assert seen["calendar_reminder_dispatch_last_success_timestamp_seconds"] == (NOON - 4 * MINUTE).timestamp()


@pytest.mark.django_db
def test_nothing_waiting_is_zero_and_a_success_that_never_was_is_absent(client):
    seen = scrape(client)

    told = {reading.name: seen.get(reading.name) for reading in READINGS}
    assert {name for name, value in told.items() if value is None} == {
        "calendar_appointment_timeout_last_success_timestamp_seconds",
        "calendar_reminder_dispatch_last_success_timestamp_seconds",
    }
    assert {value for value in told.values() if value is not None} == {0}


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_leaves_the_rest_of_the_metrics(client, monkeypatch):
    # Nothing listens on the discard port of this machine.
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", "9")

    seen = scrape(client)

    assert "process_resident_memory_bytes" in seen
    assert not {reading.name for reading in READINGS} & seen.keys()
