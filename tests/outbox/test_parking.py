"""A message that can't be published holds back its own key, and nothing else."""

import datetime
import io
import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db.models import Value
from django.db.models.functions import Concat, Substr

from core import clock
from core.actors import Actor
from core.errors import NotFound
from core.ids import new_id
from outbox import kafka, operations, parking, queue
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.relay import RelayJob
from outbox.topics import DEAD_LETTER_SUFFIX
from tests import kafka_reader
from tests.outbox import mock_broker
from tests.outbox.messages import NOON, a_change
from tests.outbox.mock_broker import MockBroker
from tests.outbox.relaying import TOPIC, heal, poison, relay_all, tell, versions
from workers.job import JobUnavailable
from workers.kafka import is_outage
from workers.topics import ensure

pytestmark = pytest.mark.django_db(transaction=True)
LATER = NOON + datetime.timedelta(hours=1)


def parked_versions(key: object) -> list[int]:
    ids = OutboxParked.objects.filter(key=str(key)).order_by("id").values_list("id", flat=True)
    return [json.loads(OutboxMessage.objects.get(id=parked_id).payload)["aggregateVersion"] for parked_id in ids]


def attempt_again(relay: RelayJob, *, as_of: datetime.datetime = LATER) -> None:
    relay._tenure._retrying.reopen()  # type: ignore[union-attr]
    relay_all(relay, as_of=as_of)


def test_a_poison_message_parks_its_key_alone(relay: RelayJob, bootstrap: str) -> None:
    sick, sound = new_id(), new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3) for event_id in (sick, sound))
    poison(sick, version=2)

    result = relay_all(relay)

    assert versions(bootstrap, sound) == [1, 2, 3]
    assert versions(bootstrap, sick) == [1]
    assert parked_versions(sick) == [2, 3]
    assert result.counts() == {"published": 4, "failed": 1, "parked": 2}
    assert not OutboxReady.objects.exists()
    blocked = OutboxBlockedKey.objects.get()
    assert (blocked.key, blocked.reason, blocked.attempt_count) == (str(sick), "MSG_SIZE_TOO_LARGE", 1)


def test_what_follows_a_parked_message_waits_behind_it(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1)])
    poison(event_id)
    relay_all(relay)

    tell([a_change(event_id, version=2), a_change(event_id, version=3)])
    relay_all(relay)

    assert versions(bootstrap, event_id) == []
    assert parked_versions(event_id) == [1, 2, 3]


def test_a_healed_key_goes_out_in_order_when_its_retry_is_due(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1), a_change(event_id, version=2)])
    was = poison(event_id)
    relay_all(relay)
    heal(was)

    attempt_again(relay, as_of=NOON)
    assert versions(bootstrap, event_id) == []
    tell([a_change(event_id, version=3)])
    attempt_again(relay, as_of=LATER)

    assert versions(bootstrap, event_id) == [1, 2, 3]
    assert not OutboxBlockedKey.objects.exists()
    assert not OutboxParked.objects.exists()


def test_attempts_grow_further_apart(relay: RelayJob) -> None:
    event_id = new_id()
    tell([a_change(event_id)])
    poison(event_id)
    relay_all(relay)
    waits = [OutboxBlockedKey.objects.get().next_attempt_at - NOON]
    as_of = NOON

    for _ in range(10):
        as_of = OutboxBlockedKey.objects.get().next_attempt_at
        attempt_again(relay, as_of=as_of)
        waits.append(OutboxBlockedKey.objects.get().next_attempt_at - as_of)

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (datetime.timedelta(seconds=5), datetime.timedelta(minutes=15))
    assert OutboxBlockedKey.objects.get().attempt_count == 11


def test_a_second_poison_message_blocks_the_key_again(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3))
    was = poison(event_id, version=1)
    poison(event_id, version=2)
    relay_all(relay)
    heal(was)

    attempt_again(relay)

    assert versions(bootstrap, event_id) == [1]
    assert parked_versions(event_id) == [2, 3]


def test_an_unknown_topic_parks_and_goes_out_once_it_exists(relay: RelayJob, bootstrap: str) -> None:
    topic = f"pin.calendar.test-{new_id()}.v1"
    event_id, sound = new_id(), new_id()
    tell([a_change(event_id), a_change(sound)])
    OutboxMessage.objects.filter(key=str(event_id)).update(topic=topic)
    relay_all(relay)
    assert versions(bootstrap, sound) == [1]
    assert OutboxBlockedKey.objects.get().reason == "UNKNOWN_TOPIC_OR_PART"

    ensure([topic])
    relay._sender._learned_at = 0.0
    attempt_again(relay)

    assert versions(bootstrap, event_id, topic=topic) == [1]


def test_headers_spoiled_by_hand_park_their_key(relay: RelayJob, bootstrap: str) -> None:
    event_id, sound = new_id(), new_id()
    tell([a_change(event_id), a_change(sound)])
    OutboxMessage.objects.filter(key=str(event_id)).update(headers="{")

    relay_all(relay)

    assert versions(bootstrap, sound) == [1]
    assert OutboxBlockedKey.objects.get().reason == "INVALID_HEADERS"


def test_what_is_freed_between_reading_and_parking_is_published(relay: RelayJob, bootstrap: str) -> None:
    """A person skips the only parked message of the key at that moment: nobody would call for its follower any more."""
    event_id = new_id()
    tell([a_change(event_id, version=1)])
    poison(event_id)
    relay_all(relay)
    tell([a_change(event_id, version=2)])
    tenure = relay._tenure
    assert tenure is not None
    (row,) = queue.read(tenure.session, shards=tenure.shards, above=tenure.floor.id, limit=10)
    assert row.is_blocked

    call_command("outbox_parked", "skip", TOPIC, str(event_id), stdout=io.StringIO())

    assert parking.hold(tenure.session, [row], as_of=NOON) == 0
    relay_all(relay)
    assert versions(bootstrap, event_id) == [2]


def test_a_relay_that_runs_once_retries_what_is_due(relay: RelayJob, bootstrap: str) -> None:
    event_ids = [new_id() for _ in range(60)]  # more than one look for due keys takes
    tell(a_change(event_id) for event_id in event_ids)
    OutboxMessage.objects.update(headers=Concat(Value("{"), "headers"))
    relay_all(relay)
    relay.close()
    assert OutboxBlockedKey.objects.count() == 60
    OutboxMessage.objects.update(headers=Substr("headers", 2))
    OutboxBlockedKey.objects.update(next_attempt_at=NOON)
    out = io.StringIO()

    call_command("run_outbox_relay", "--once", stdout=out)

    assert json.loads(out.getvalue())["published"] == 60
    assert not OutboxBlockedKey.objects.exists()
    assert [versions(bootstrap, event_id) for event_id in event_ids[::20]] == [[1]] * 3


def test_an_operator_retries_at_once(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell([a_change(event_id)])
    was = poison(event_id)
    relay_all(relay)
    heal(was)

    assert operations.retry(TOPIC, str(event_id), actor=Actor.operator(), by="test", as_of=NOON) == 1
    attempt_again(relay, as_of=NOON)

    assert versions(bootstrap, event_id) == [1]
    with pytest.raises(NotFound):
        operations.retry(TOPIC, str(event_id), actor=Actor.operator(), by="test", as_of=NOON)


def test_skipping_leaves_a_dead_letter_and_lets_the_followers_go(
    relay: RelayJob, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1), a_change(event_id, version=2)])
    poison(event_id)
    relay_all(relay)
    out = io.StringIO()

    call_command("outbox_parked", "skip", TOPIC, str(event_id), stdout=out)
    attempt_again(relay, as_of=clock.now())

    assert versions(bootstrap, event_id) == [2]
    (copy,) = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC + DEAD_LETTER_SUFFIX]), event_id)
    assert (copy.headers["dlt_reason"], copy.headers["dlt_value"]) == ("MSG_SIZE_TOO_LARGE", "omitted")
    assert copy.message_id == str(OutboxMessage.objects.order_by("id").values_list("message_id", flat=True)[0])
    assert "outbox message skipped" in capsys.readouterr().err
    assert not OutboxBlockedKey.objects.exists()


@pytest.mark.parametrize("headers", ["{", "[1]", '{"ce_id": 7}'])
def test_a_message_with_headers_that_kafka_cannot_take_is_skipped_with_a_copy_under_its_id(
    relay: RelayJob, bootstrap: str, headers: str
) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1), a_change(event_id, version=2)])
    spoilt = OutboxMessage.objects.order_by("id")[0]
    OutboxMessage.objects.filter(id=spoilt.id).update(headers=headers)
    relay_all(relay)

    call_command("outbox_parked", "skip", TOPIC, str(event_id), stdout=io.StringIO())
    attempt_again(relay, as_of=clock.now())

    assert versions(bootstrap, event_id) == [2]
    (copy,) = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC + DEAD_LETTER_SUFFIX]), event_id)
    assert (copy.message_id, copy.headers["dlt_headers"]) == (str(spoilt.message_id), "omitted")
    assert copy.value["aggregateVersion"] == 1


def test_a_message_that_is_gone_cannot_be_skipped_and_a_retry_frees_its_key(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1), a_change(event_id, version=2)])
    poison(event_id)
    relay_all(relay)
    OutboxMessage.objects.order_by("id")[0].delete()

    with pytest.raises(CommandError, match="is gone; a retry frees the key"):
        call_command("outbox_parked", "skip", TOPIC, str(event_id))
    call_command("outbox_parked", "retry", "--key", TOPIC, str(event_id), stdout=io.StringIO())
    attempt_again(relay, as_of=clock.now())

    assert versions(bootstrap, event_id) == [2]


def test_the_command_lists_what_is_parked_and_refuses_unknown_keys(relay: RelayJob) -> None:
    event_id = new_id()
    tell([a_change(event_id, version=1), a_change(event_id, version=2)])
    poison(event_id)
    relay_all(relay)
    out = io.StringIO()

    call_command("outbox_parked", "list", stdout=out)
    call_command("outbox_parked", "retry", "--all", stdout=io.StringIO())

    listed = json.loads(out.getvalue())
    assert (listed["topic"], listed["key"], listed["parked"]) == (TOPIC, str(event_id), 2)
    with pytest.raises(CommandError) as caught:
        call_command("outbox_parked", "skip", TOPIC, "unknown")
    assert caught.value.returncode == 2


@pytest.fixture
def broker(settings: LazySettings) -> Iterator[MockBroker]:
    with mock_broker.running() as mock:
        mock.create_topic(TOPIC, partitions=1)
        settings.ENV = settings.ENV.model_copy(update={"kafka_bootstrap_servers": mock.bootstrap})
        yield mock


@pytest.fixture
def relay_to_mock(broker: MockBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[RelayJob]:
    """Sends one batch at a time: Kafka refuses a batch whose predecessor it has refused, but the mock does not."""
    one_at_a_time = {**kafka.producer_settings(), "max.in.flight.requests.per.connection": 1}
    monkeypatch.setattr(kafka, "producer_settings", lambda: one_at_a_time)
    job = RelayJob()
    yield job
    job.close()


def test_a_refused_batch_ends_the_producer_before_its_followers_pass(
    broker: MockBroker, relay_to_mock: RelayJob
) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version, zone="x" * 600_000) for version in range(1, 7))  # a batch each
    broker.refuse(KafkaError.MSG_SIZE_TOO_LARGE)

    relay_all(relay_to_mock)

    seen = versions(broker.bootstrap, event_id)
    assert seen[-6:] == [1, 2, 3, 4, 5, 6]
    assert seen[:-6] in ([], [2])  # the one that was being handed to the connection at that moment


def test_a_message_that_the_broker_refuses_also_alone_is_parked(broker: MockBroker, relay_to_mock: RelayJob) -> None:
    sick, sound = new_id(), new_id()
    tell([a_change(sick, version=1), a_change(sound), a_change(sick, version=2)])
    broker.refuse(KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.MSG_SIZE_TOO_LARGE)  # the batch, and the first alone

    relay_all(relay_to_mock)
    assert versions(broker.bootstrap, sound) == [1]
    assert versions(broker.bootstrap, sick) == []
    assert parked_versions(sick) == [1, 2]

    attempt_again(relay_to_mock)
    assert versions(broker.bootstrap, sick) == [1, 2]


def test_an_innocent_message_of_a_refused_batch_is_published(broker: MockBroker, relay_to_mock: RelayJob) -> None:
    event_ids = [new_id() for _ in range(5)]
    tell(a_change(event_id) for event_id in event_ids)
    broker.refuse(KafkaError.MSG_SIZE_TOO_LARGE)

    assert relay_all(relay_to_mock).counts() == {"published": 5, "failed": 0, "parked": 0}
    for event_id in event_ids:
        assert versions(broker.bootstrap, event_id) == [1]


def test_a_retry_finds_the_second_poison_message_of_a_key_at_once(broker: MockBroker, relay_to_mock: RelayJob) -> None:
    """It fails its whole batch, and by one message a retry the key would need days to reach it."""
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in range(1, 6))
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    broker.refuse(too_large, too_large)
    relay_all(relay_to_mock)
    assert parked_versions(event_id) == [1, 2, 3, 4, 5]

    broker.refuse(KafkaError.NO_ERROR, too_large, KafkaError.NO_ERROR, KafkaError.NO_ERROR, too_large)
    attempt_again(relay_to_mock)

    assert versions(broker.bootstrap, event_id) == [1, 2, 3]
    assert parked_versions(event_id) == [4, 5]


def test_too_few_replicas_are_an_outage_that_parks_nothing(
    broker: MockBroker, relay_to_mock: RelayJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "patience_seconds", lambda: 1.0)
    tell([a_change()])
    broker.refuse(*[KafkaError.NOT_ENOUGH_REPLICAS] * 1_000)

    with pytest.raises(JobUnavailable):
        relay_all(relay_to_mock)

    assert OutboxReady.objects.count() == 1
    assert not OutboxBlockedKey.objects.exists()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError._ALL_BROKERS_DOWN, True),
        (KafkaError._PURGE_QUEUE, True),
        (KafkaError.NOT_ENOUGH_REPLICAS, True),
        (KafkaError.UNKNOWN_PRODUCER_ID, True),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.INVALID_RECORD, False),
        (KafkaError._UNKNOWN_TOPIC, False),
    ],
)
def test_an_outage_is_told_from_a_refusal(code: int, expected: bool) -> None:
    assert is_outage(KafkaError(code)) is expected
