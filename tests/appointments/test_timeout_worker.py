"""The worker appointment-timeout as a whole: loop, command, metrics, job runs."""

import datetime
import io
import itertools
import json
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from prometheus_client import CollectorRegistry

from appointments.models import Appointment
from appointments.timeout import TimeoutJob
from core import clock
from outbox.models import OutboxMessage
from tests import bulk
from tests.appointments.timeouts import logged
from tests.factories import DAY, NOON, SECOND, an_overdue_appointment
from tests.workers.fakes import FakeTime
from workers import loop
from workers.loop import Pace
from workers.models import JobRun
from workers.reporting import Reporter
from workers.stopping import Stop

pytestmark = pytest.mark.django_db


def test_metrics_and_job_run_tell_what_the_cycle_did(monkeypatch: pytest.MonkeyPatch) -> None:
    bulk.overdue_appointments(5)
    an_overdue_appointment(calendar_event__status="Completed")
    monkeypatch.setattr(clock, "now", lambda: NOON)
    job, registry = TimeoutJob(), CollectorRegistry()

    turn = loop.turn(
        job,
        pace=Pace(interval=60, batch_size=4, max_duration=30),
        stop=Stop(beat=lambda: None),
        reporter=Reporter(job, registry=registry),
    )

    prefix = "calendar_appointment_timeout"

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{prefix}_{name}", labels)

    assert (sample("items_total", slot_outcome="released"), sample("items_total", slot_outcome="expired")) == (2, 2)
    assert (sample("errors_total"), sample("skip_locked_total"), sample("backlog")) == (1, 0, 2)
    assert sample("cycle_duration_seconds_count") == 1
    assert (sample("last_success_timestamp_seconds") or 0) >= NOON.timestamp()
    run = JobRun.objects.get(pk=turn.run_id)
    assert (run.job, run.outcome, run.as_of) == ("appointment-timeout", "Succeeded", NOON)
    assert run.counts == {
        "expiredCount": 4,
        "slotsReleasedCount": 2,
        "slotsExpiredCount": 2,
        "skippedLockedCount": 0,
        "failedCount": 1,
    }
    assert set(OutboxMessage.objects.values_list("correlation_id", flat=True)) == {turn.run_id}


def test_what_was_expired_is_counted_also_when_the_cycle_breaks_off() -> None:
    bulk.overdue_appointments(3)
    job, registry = TimeoutJob(), CollectorRegistry()
    job.make_metrics(registry)
    calls = itertools.count(1)

    def cut_off_at_the_third(execute: Any, statement: str, params: Any, many: bool, context: Any) -> Any:
        if "AS claimed" in statement and next(calls) == 3:
            raise OperationalError("the server is gone")
        return execute(statement, params, many, context)

    with connection.execute_wrapper(cut_off_at_the_third), pytest.raises(OperationalError):
        job.cycle(as_of=NOON, limit=10, keep_going=lambda: True)

    name = "calendar_appointment_timeout_items_total"
    counted = [registry.get_sample_value(name, {"slot_outcome": way}) or 0 for way in ("released", "expired")]
    assert sum(counted) == Appointment.objects.filter(status="Expired").count() == 2


def test_the_real_command_expires_and_prints_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    an_overdue_appointment(pending_expires_at=long_ago, start_at=long_ago + DAY)
    out = io.StringIO()

    call_command("run_appointment_timeout", "--once", stdout=out)

    [line] = out.getvalue().splitlines()
    result = json.loads(line)
    assert list(result) == [
        "runId",
        "asOf",
        "expiredCount",
        "slotsReleasedCount",
        "slotsExpiredCount",
        "skippedLockedCount",
        "failedCount",
        "durationMs",
    ]
    assert (result["expiredCount"], result["slotsExpiredCount"]) == (1, 1)
    assert UUID(result["runId"]) == JobRun.objects.get().id
    completed = logged(capsys, "cycle completed")
    assert [event["expiredCount"] for event in completed] == [1]


def test_whatever_lapses_between_two_ticks_is_expired_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precision: what lapses at t is Expired by t + 60 s + the cycle's duration, which takes no time here."""
    time = FakeTime(until=400)
    monkeypatch.setattr(clock, "now", lambda: NOON + time.elapsed * SECOND)
    for second in (0, 1, 59, 60, 61, 119, 180, 299):
        an_overdue_appointment(pending_expires_at=NOON + second * SECOND, created_at=NOON - DAY)
    job = TimeoutJob()

    loop.run(
        job,
        pace=Pace(interval=60, batch_size=200, max_duration=30),
        stop=time.stop,
        reporter=Reporter(job, registry=CollectorRegistry()),
        monotonic=time.monotonic,
    )

    expired = Appointment.objects.filter(status="Expired").values_list("updated_at", "pending_expires_at")
    waits = [(expired_at - deadline) / SECOND for expired_at, deadline in expired if deadline]
    assert len(waits) == 8
    assert min(waits) > 0
    assert max(waits) <= 60
