"""What only Apache Kafka itself can show (`make test-kafka`): restarts with memory, refusals, Java's placement."""

import base64
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from core.ids import new_id
from dev.apache_kafka import ApacheKafka, fetch
from dev.kafka import EmbeddedKafka
from outbox import topics
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.kafka_client import settings_for
from tests.outbox.messages import a_change
from tests.outbox.processes import owners, relay_process
from tests.outbox.relaying import TOPIC, relay_all, relay_the_rest, tell, versions
from tests.outbox.writers import Writers, assert_nothing_lost_or_out_of_order, until_empty
from tests.waiting import eventually
from workers.job import JobUnavailable
from workers.topics import ensure

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = 20_000
"""The limit of topics that refuse what the client lets pass."""


@pytest.fixture
def apache_kafka(embedded_kafka: ApacheKafka | EmbeddedKafka) -> ApacheKafka:
    if not isinstance(embedded_kafka, ApacheKafka):
        pytest.skip("runs on Apache Kafka: make test-kafka")
    ensure(topics.names())
    return embedded_kafka


@pytest.fixture
def admin(apache_kafka: ApacheKafka) -> AdminClient:
    return AdminClient(settings_for(apache_kafka.bootstrap_servers))


@pytest.fixture
def make_topic(admin: AdminClient) -> Iterator[Callable[..., str]]:
    """Makes topics of one partition that are gone after the test."""
    made: list[str] = []

    def make(**config: object) -> str:
        name = f"pin.calendar.test-{new_id()}.v1"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(30)
        eventually(lambda: name in admin.list_topics(timeout=10).topics, "the broker knows the topic")
        made.append(name)
        return name

    yield make
    for deletion in admin.delete_topics(made).values() if made else ():
        deletion.exception(30)


def set_config(admin: AdminClient, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    (change,) = admin.incremental_alter_configs([resource]).values()
    change.result(30)


def tell_on(topic: str, *changes: tuple[UUID, int, int]) -> None:
    """Tell changes, as (event, version, size of a field of theirs), on this topic."""
    tell(a_change(event_id, version=version, zone=_incompressible(size)) for event_id, version, size in changes)
    keys = {str(event_id) for event_id, _, _ in changes}
    OutboxMessage.objects.filter(key__in=keys).update(topic=topic)


def _incompressible(size: int) -> str:
    """The broker compares with its limit what the client has compressed."""
    return base64.b64encode(random.Random(size).randbytes(size)).decode()[:size]


def once_each(bootstrap: str, topic: str, key: object) -> list[int]:
    """The versions of the key as a consumer sees them, without repeats."""
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [topic]), key)
    return [record.value["aggregateVersion"] for record in kafka_reader.first_deliveries(records)]


@pytest.mark.parametrize("outage", [ApacheKafka.stop, ApacheKafka.kill], ids=["stop", "kill -9"])
def test_a_restart_of_the_broker_under_writers_loses_nothing_and_keeps_the_order(
    apache_kafka: ApacheKafka, outage: Callable[[ApacheKafka], None]
) -> None:
    with relay_process():
        eventually(lambda: len(owners()) == 8, "the relay works", timeout=30)
        with Writers(count=3, keys=24) as writers:
            writers.have_written(60)
            outage(apache_kafka)
            writers.have_written(60)
            apache_kafka.start()
            writers.have_written(60)
        until_empty(timeout=60)

    assert not OutboxParked.objects.exists()
    assert_nothing_lost_or_out_of_order(apache_kafka.bootstrap_servers, writers.committed())


def test_a_record_that_is_too_large_for_its_topic_parks_its_key_alone(
    relay: RelayJob, bootstrap: str, make_topic: Callable[..., str], admin: AdminClient
) -> None:
    topic = make_topic(max_message_bytes=SMALL)
    sick, *sound = [new_id() for _ in range(500)]
    tell_on(topic, *((event_id, 1, 10) for event_id in sound[:250]), (sick, 1, 2 * SMALL), (sick, 2, 10))
    tell_on(topic, *((event_id, 1, 10) for event_id in sound[250:]))

    relay_all(relay)

    seen = kafka_reader.first_deliveries(kafka_reader.read_all(bootstrap, [topic]))
    assert {record.key for record in seen} == {str(event_id) for event_id in sound}
    assert OutboxBlockedKey.objects.get().reason == "MSG_SIZE_TOO_LARGE"
    assert OutboxParked.objects.count() == 2
    assert not OutboxReady.objects.exists()

    set_config(admin, topic, "max.message.bytes", "1000000")
    relay_the_rest(relay)

    assert once_each(bootstrap, topic, sick) == [1, 2]


def test_batches_behind_a_refused_one_do_not_pass_it(
    relay: RelayJob, bootstrap: str, make_topic: Callable[..., str], admin: AdminClient
) -> None:
    """Several are in flight, each with its sequence number; all but the refused one would be taken."""
    topic = make_topic(max_message_bytes=600_000)
    event_id = new_id()
    sizes = [510_000] * 4 + [700_000] + [510_000] * 10  # none shares a batch
    tell_on(topic, *((event_id, version, size) for version, size in enumerate(sizes, start=1)))

    relay_all(relay)

    assert once_each(bootstrap, topic, event_id) == [1, 2, 3, 4]
    assert OutboxParked.objects.count() == 11

    set_config(admin, topic, "max.message.bytes", "2000000")
    relay_the_rest(relay)

    assert once_each(bootstrap, topic, event_id) == list(range(1, 16))


def test_a_topic_that_is_deleted_under_the_relay_parks_its_keys(
    relay: RelayJob, bootstrap: str, make_topic: Callable[..., str], admin: AdminClient
) -> None:
    topic, event_id, sound = make_topic(), new_id(), new_id()
    tell_on(topic, (event_id, 1, 10))
    relay_all(relay)
    assert once_each(bootstrap, topic, event_id) == [1]
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the broker has forgotten the topic")
    tell_on(topic, (event_id, 2, 10))
    tell([a_change(sound)])

    for _ in range(3):  # the producer learns of it from a failure, which ends it; the next one asks first
        try:
            relay_all(relay)
        except JobUnavailable:
            continue

    assert versions(bootstrap, sound) == [1]
    assert OutboxBlockedKey.objects.get().key == str(event_id)
    assert not OutboxReady.objects.exists()


def test_javas_own_partitioner_places_the_keys_alike(relay: RelayJob, bootstrap: str, admin: AdminClient) -> None:
    keys = [str(new_id()) for _ in range(1_000)]
    tell(a_change(UUID(key)) for key in keys)
    relay_all(relay)
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC]), *keys)
    placed = {record.key: record.partition for record in records}
    partitions = len(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)

    told = subprocess.run(
        ["java", "-cp", f"{fetch()}/*", str(Path(__file__).with_name("Partitions.java")), str(partitions)],
        input="\n".join(keys),
        capture_output=True,
        text=True,
        check=True,
    )

    assert [placed[key] for key in keys] == list(map(int, told.stdout.split()))
    assert len(set(placed.values())) == partitions > 1
