"""AC8: how late a reminder goes out while the dispatcher runs as it should."""

import datetime

import pytest
from prometheus_client import CollectorRegistry

from core import clock
from reminders.dispatch import DispatchJob
from reminders.models import EventReminder
from tests.factories import NOON, SECOND
from tests.reminders.dispatching import STALE_AFTER, a_due_reminder
from tests.workers.fakes import FakeTime
from workers import loop
from workers.loop import Pace
from workers.reporting import Reporter

pytestmark = pytest.mark.django_db

TICK = 60
DUE_SECONDS = sorted({*range(0, 301, 6), 1, 59, 61, 119, 299})  # some five batches a tick, and around the ticks


@pytest.mark.parametrize("batch_seconds", [0, 5])
def test_ac8_what_is_due_goes_out_within_two_minutes_at_a_cycle_of_60_seconds(
    monkeypatch: pytest.MonkeyPatch, batch_seconds: int
) -> None:
    """Also when each batch takes its time; `benchmarks/soak` has the load test with thousands due in one minute."""
    time = FakeTime(until=8 * TICK)

    def now() -> datetime.datetime:
        return NOON + time.elapsed * SECOND

    def now_of_a_batch() -> datetime.datetime:
        time.pass_by(batch_seconds)
        return now()

    monkeypatch.setattr(clock, "now", now)
    for second in DUE_SECONDS:
        a_due_reminder(due_at=NOON + second * SECOND)
    job = DispatchJob(stale_after=STALE_AFTER, now=now_of_a_batch)

    loop.run(
        job,
        pace=Pace(interval=TICK, batch_size=2, max_duration=300),
        stop=time.stop,
        reporter=Reporter(job, registry=CollectorRegistry()),
        monotonic=time.monotonic,
    )

    sent = EventReminder.objects.filter(status="Sent").values_list("sent_at", "due_at")
    waits = [(sent_at - due_at) / SECOND for sent_at, due_at in sent if sent_at]
    assert len(waits) == len(DUE_SECONDS)
    assert min(waits) > 0
    assert max(waits) <= 120
