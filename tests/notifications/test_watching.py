"""What is watched of notifications, by the names that alerts and panels use."""

import pytest
from prometheus_client import CollectorRegistry

from contracts.calendar import ReminderDue
from core import clock
from notifications.job import NotificationsJob
from notifications.models import Delivery
from tests.factories import DAY, HOUR
from tests.kafka_writer import Writer
from tests.notifications.mail_server import MailServer
from tests.notifications.people import example, the_usual_people
from workers.reporting import Reporter

pytestmark = pytest.mark.django_db(transaction=True)

KIND = {"kind": "AppointmentReminder", "channel": "email"}
NAMES = {
    "calendar_notifications_consumer_lag",
    "calendar_notifications_cycle_duration_seconds",
    "calendar_notifications_dead_letters",
    "calendar_notifications_errors",
    "calendar_notifications_messages",
    "calendar_notifications_last_success_timestamp_seconds",
    "calendar_notifications_deliveries",
    "calendar_notifications_delivery_delay_seconds",
    "calendar_notifications_channel_outages",
    "calendar_notifications_deliveries_pending",
    "calendar_notifications_deliveries_parked",
    "calendar_notifications_oldest_pending_age_seconds",
}


def test_deliveries_are_counted_and_measured(mails: MailServer, job: NotificationsJob, writer: Writer) -> None:
    registry = CollectorRegistry()
    Reporter(job, registry=registry)
    assert {metric.name for metric in registry.collect()} >= NAMES
    the_usual_people()
    now = clock.now()
    writer.tell(example(ReminderDue, start_at=now + DAY, occurred_at=now - HOUR))
    mails.refusals["client@example.test"] = "550 no such mailbox"

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"calendar_notifications_{name}", labels)

    def cycle() -> None:
        job.cycle(as_of=now, limit=100, keep_going=lambda: True)
        job.refresh(now + HOUR)

    cycle()
    assert value("deliveries_pending") == 2
    assert value("oldest_pending_age_seconds") == pytest.approx(3_600, abs=60)
    cycle()

    assert value("deliveries_total", **KIND, outcome="sent") == 1
    assert value("deliveries_total", **KIND, outcome="parked") == 1
    assert (value("deliveries_pending"), value("deliveries_parked")) == (0, 1)
    assert value("oldest_pending_age_seconds") == 0
    assert (value("delivery_delay_seconds_count"), value("delivery_delay_seconds_bucket", le="900.0")) == (1, 0)
    assert value("messages_total", topic=ReminderDue.TOPIC, outcome="handled") == 1

    Delivery.objects.update(status="pending", sent_at=None, next_attempt_at=now)
    mails.stop()
    cycle()
    assert value("channel_outages_total", channel="email") == 1
