"""A broker that is away holds everything and loses nothing."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from contracts.calendar import ReminderDue
from core.ids import new_id
from dev.kafka import EmbeddedKafka
from outbox import kafka, topics
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.keep_going import always
from tests.outbox.messages import NOON, a_change
from tests.outbox.relaying import relay_all, tell, versions
from tests.reminders.dispatching import a_due_reminder, dispatch
from tests.waiting import eventually
from workers.job import JobUnavailable
from workers.topics import ensure

pytestmark = pytest.mark.django_db(transaction=True)


def publishes_all(relay: RelayJob) -> bool:
    """False while the broker, just back, keeps the relay waiting; a relay tries again then."""
    with suppress(JobUnavailable):
        relay_all(relay)
    return not OutboxReady.objects.exists()


@pytest.fixture
def stopped_kafka(embedded_kafka: EmbeddedKafka, relay: RelayJob) -> Iterator[EmbeddedKafka]:
    """The broker stops under a relay that has published; the test starts it again, or the fixture does."""
    tell([a_change()])
    eventually(lambda: publishes_all(relay), "it has published, also if the broker has only just started", timeout=60)
    embedded_kafka.stop()
    yield embedded_kafka
    embedded_kafka.start()
    ensure(topics.names())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that wait in vain."""
    monkeypatch.setattr(kafka, "patience_seconds", lambda: 1.0)
    monkeypatch.setattr(kafka, "_METADATA_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
def test_everything_is_held_and_nothing_parked_while_the_broker_is_away(
    relay: RelayJob, stopped_kafka: EmbeddedKafka
) -> None:
    tell(a_change() for _ in range(3))
    cpu = time.process_time()

    for _ in range(2):
        with pytest.raises(JobUnavailable):
            relay_all(relay)

    assert time.process_time() - cpu < 1.0
    assert OutboxReady.objects.count() == 3
    assert not OutboxBlockedKey.objects.exists()
    assert not OutboxParked.objects.exists()


def test_a_reminder_that_waited_for_a_broker_is_one_message_and_no_pile_of_copies(
    relay: RelayJob, stopped_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    reminder, turns_in_vain = a_due_reminder(), 4
    for _ in range(60):  # an hour of cycles
        dispatch()
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "patience_seconds", lambda: 1.0)
        patch.setattr(kafka, "_METADATA_SECONDS", 1.0)
        for _ in range(turns_in_vain):
            with pytest.raises(JobUnavailable):
                relay_all(relay)
    [waiting] = OutboxMessage.objects.filter(topic=ReminderDue.TOPIC)

    bootstrap = stopped_kafka.start()
    ensure(topics.names())
    eventually(lambda: publishes_all(relay), "all is published", timeout=60)

    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [ReminderDue.TOPIC]), reminder.event_id)
    told = [record.message_id for record in records]
    assert set(told) == {str(waiting.message_id)}
    assert len(told) < turns_in_vain  # a second one is only sent when the first one's answer was lost


def test_a_broker_that_comes_back_without_memory_gets_all_in_order(
    relay: RelayJob, stopped_kafka: EmbeddedKafka
) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3))
    with pytest.raises(JobUnavailable):
        relay_all(relay)

    bootstrap = stopped_kafka.start()
    ensure(topics.names())
    eventually(lambda: publishes_all(relay), "all is published", timeout=60)

    assert versions(bootstrap, event_id)[-3:] == [1, 2, 3]


def test_a_restart_between_two_bursts_heals_by_itself(relay: RelayJob, stopped_kafka: EmbeddedKafka) -> None:
    bootstrap = stopped_kafka.start()
    ensure(topics.names())
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3))

    # The embedded broker does not know the producer any more; a new one is made after the first failure.
    eventually(lambda: publishes_all(relay), "all is published", timeout=60)

    assert versions(bootstrap, event_id)[-3:] == [1, 2, 3]
    assert not OutboxParked.objects.exists()


def test_a_broker_that_hangs_has_acknowledged_nothing(relay: RelayJob, embedded_kafka: EmbeddedKafka) -> None:
    """The producer, purged, ends with a fatal error in the middle of its reports: those not told are no acks."""
    tell([a_change()])
    eventually(lambda: publishes_all(relay), "it has published, also if the broker has only just started", timeout=60)
    assert embedded_kafka.pid is not None
    tell(a_change() for _ in range(1_000))
    os.kill(embedded_kafka.pid, signal.SIGSTOP)
    try:
        with pytest.raises(JobUnavailable):
            relay_all(relay)

        assert OutboxReady.objects.count() == 1_000
    finally:
        os.kill(embedded_kafka.pid, signal.SIGCONT)


@pytest.mark.usefixtures("impatient")
def test_a_relay_that_cannot_reach_the_broker_gives_its_shards_back(
    relay: RelayJob, stopped_kafka: EmbeddedKafka
) -> None:
    tell([a_change()])

    with pytest.raises(JobUnavailable):
        relay.cycle(as_of=NOON, limit=10, keep_going=always)

    assert relay._tenure is None


def test_a_stop_while_waiting_for_acknowledgements_is_quick(relay: RelayJob, stopped_kafka: EmbeddedKafka) -> None:
    tell([a_change()])
    started = time.monotonic()

    with pytest.raises(JobUnavailable):
        relay.cycle(as_of=NOON, limit=10, keep_going=iter([True] + [False] * 1_000).__next__)

    assert time.monotonic() - started < 4
    assert OutboxReady.objects.count() == 1
