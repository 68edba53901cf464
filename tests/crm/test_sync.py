"""The consumer between the CRM and the calendar, over Kafka."""

import io
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.core.management import call_command
from prometheus_client import CollectorRegistry

from appointments.booking import Busy
from contracts.calendar import AppointmentBooked, AppointmentCancelled, AppointmentConfirmed
from contracts.crm import AssigneeChanged, BookingDeadlineChanged, DeadlineState
from contracts.samples import EXAMPLES
from core.ids import new_id
from crm import assignees
from crm.job import CrmSyncJob
from crm.models import AssigneeChange, Deadline, LeadFeedEntry
from outbox import topics
from pin_calendar.models import CalendarEvent
from tests import kafka_reader
from tests.factories import NOON
from tests.invariants import violations
from tests.kafka_writer import Writer
from workers.dead_letters import topic_for
from workers.job import JobUnavailable
from workers.topics import ensure

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def group(bootstrap: str, settings: Any) -> str:
    """A group of this test's own, which begins where the topics end now."""
    ensure(topics.names())
    prefix = f"test-{new_id()}-"
    kafka_reader.skip_history(bootstrap, topics.names(), group=f"{prefix}crm-sync")
    settings.ENV = settings.ENV.model_copy(update={"kafka_consumer_group_prefix": prefix})
    return f"{prefix}crm-sync"


@pytest.fixture
def writer(bootstrap: str, group: str) -> Writer:
    return Writer(bootstrap)


@pytest.fixture
def job(group: str) -> Iterator[CrmSyncJob]:
    with closing(CrmSyncJob()) as made:
        yield made


def read_all(job: CrmSyncJob) -> dict[str, int]:
    return job.cycle(as_of=NOON, limit=100, keep_going=lambda: True).counts()


def a_deadline(revision: int, state: DeadlineState = DeadlineState.OPEN, **changes: Any) -> BookingDeadlineChanged:
    message: BookingDeadlineChanged = EXAMPLES[BookingDeadlineChanged].model_copy(
        update={"revision": revision, "state": state, **changes}
    )
    return message


def test_one_command_follows_the_crm_and_feeds_its_leads(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.tell(a_deadline(1), a_deadline(3, DeadlineState.MOVED), a_deadline(2, DeadlineState.CLOSED))
    writer.tell(EXAMPLES[AppointmentBooked], EXAMPLES[AppointmentConfirmed], EXAMPLES[AppointmentCancelled])
    out = io.StringIO()

    call_command("run_crm_sync", "--once", stdout=out)

    said = json.loads(out.getvalue())
    assert (said["handledCount"], said["failedCount"]) == (6, 0)
    assert CalendarEvent.objects.get().status == "Scheduled"
    assert Deadline.objects.get().revision == 3
    assert LeadFeedEntry.objects.count() == 3
    assert a_deadline(1).title not in capsys.readouterr().err
    assert violations() == []


def test_what_breaks_a_rule_is_put_aside_without_a_trace(
    writer: Writer, job: CrmSyncJob, bootstrap: str, group: str
) -> None:
    writer.tell(a_deadline(1, time_zone="Mars/Olympus"), a_deadline(1))

    assert read_all(job) == {"handled_count": 1, "repeated_count": 0, "failed_count": 1}

    (letter,) = kafka_reader.read_all(bootstrap, [topic_for(BookingDeadlineChanged.TOPIC, group=group)])
    assert letter.headers["dlt_reason"] == "invalid_field"
    assert CalendarEvent.objects.count() == 1


def test_rows_in_other_hands_make_it_wait_and_not_give_up(
    writer: Writer, job: CrmSyncJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.tell(EXAMPLES[AssigneeChanged])
    with monkeypatch.context() as patch:

        def busy(*_: object, **__: object) -> None:
            raise Busy("slots are being changed")

        patch.setattr(assignees, "apply", busy)
        with pytest.raises(JobUnavailable):
            read_all(job)
    assert not AssigneeChange.objects.exists()

    assert read_all(job)["handled_count"] == 1
    assert AssigneeChange.objects.count() == 1


def test_what_messages_came_to_is_counted(writer: Writer, job: CrmSyncJob) -> None:
    registry = CollectorRegistry()
    metrics = job.make_metrics(registry)
    writer.tell(a_deadline(2), a_deadline(1))
    read_all(job)
    metrics.refresh(NOON)

    for applied, count in {"created": 1, "ignored": 1}.items():
        assert registry.get_sample_value("calendar_crm_sync_deadlines_total", {"applied": applied}) == count
    topic = {"topic": BookingDeadlineChanged.TOPIC}
    assert registry.get_sample_value("calendar_crm_sync_messages_total", {**topic, "outcome": "handled"}) == 2
    assert registry.get_sample_value("calendar_crm_sync_consumer_lag", topic) == 0
