"""The cycle of appointment-timeout (spec: tests that must exist)."""

import pytest

from appointments.timeout import TimeoutJob, TimeoutResult
from outbox.models import OutboxMessage
from tests.factories import NOON, an_overdue_appointment

pytestmark = pytest.mark.django_db


def always() -> bool:
    return True


def expire(**flags: int) -> TimeoutResult:
    return TimeoutJob(chunk_size=flags.pop("chunk_size", 1)).cycle(
        as_of=NOON, limit=flags.pop("limit", 200), keep_going=always
    )


def test_nothing_overdue_changes_nothing():
    assert expire() == TimeoutResult()


@pytest.mark.parametrize("chunk_size", [1, 200])
def test_the_whole_cascade_happens(chunk_size):
    appointment = an_overdue_appointment()

    result = expire(chunk_size=chunk_size)

    assert result == TimeoutResult(expired_count=1, slots_released_count=1)
    appointment.refresh_from_db()
    assert (appointment.status, appointment.cancelled_by, appointment.cancel_reason, appointment.version) == (
        "Expired",
        None,
        "",
        2,
    )
    assert appointment.slot.status == "Available"
    event = appointment.calendar_event
    assert (event.status, event.cancel_reason) == ("Cancelled", "Запись не подтверждена агентом в срок")
    assert set(event.reminders.values_list("status", "skip_reason")) == {("Skipped", "event_cancelled")}
    assert sorted(OutboxMessage.objects.values_list("topic", flat=True)) == [
        "pin.calendar.appointment-cancelled.v1",
        "pin.calendar.event-status-changed.v1",
    ]
