"""The commands of the outbox, and its metrics on a scrape."""

import io
import json
import re
import urllib.request

import pytest
from confluent_kafka.admin import AdminClient
from django.conf import settings
from django.core.management import CommandError, call_command

from core.ids import new_id
from dev.kafka import EmbeddedKafka
from dev.processes import free_port
from outbox import kafka
from outbox.models import OutboxReady
from outbox.relay import RelayJob
from outbox.topics import names
from tests.kafka_client import settings_for
from tests.outbox.messages import a_change
from tests.outbox.processes import relay_process
from tests.outbox.relaying import TOPIC, poison, relay_all, tell
from tests.waiting import eventually
from workers import topics

pytestmark = pytest.mark.django_db(transaction=True)


def test_once_publishes_all_and_says_so_in_one_line(kafka_topics: str) -> None:
    sick = new_id()
    tell([a_change(), a_change(sick, version=1), a_change(sick, version=2), a_change()])
    poison(sick)
    out = io.StringIO()

    call_command("run_outbox_relay", "--once", "--batch-size", "1", stdout=out)

    line = json.loads(out.getvalue())
    assert list(line) == ["runId", "asOf", "published", "failed", "parked", "durationMs"]
    assert (line["published"], line["failed"], line["parked"]) == (2, 1, 2)
    assert not OutboxReady.objects.exists()


def test_once_fails_while_the_broker_is_away_also_with_nothing_to_do(
    embedded_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_METADATA_SECONDS", 1.0)
    embedded_kafka.stop()
    try:
        with pytest.raises(CommandError) as caught:
            call_command("run_outbox_relay", "--once", stdout=io.StringIO())
    finally:
        embedded_kafka.start()

    assert caught.value.returncode == 1


def test_topics_are_made_once(bootstrap: str) -> None:
    made, again = io.StringIO(), io.StringIO()

    call_command("ensure_topics", stdout=made)
    call_command("ensure_topics", stdout=again)

    assert again.getvalue() == f"0 topics created, {len(names())} were there\n"
    assert topics.ensure([name := f"pin.calendar.test-{new_id()}.v1"]) == [name]


def test_the_topics_have_the_partitions_of_the_settings(kafka_topics: str) -> None:
    metadata = AdminClient(settings_for(kafka_topics)).list_topics(TOPIC, timeout=5)

    assert len(metadata.topics[TOPIC].partitions) == settings.ENV.kafka_topic_partitions


def test_topics_cannot_be_made_while_the_broker_is_away(
    embedded_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_TIMEOUT_SECONDS", 1)
    embedded_kafka.stop()
    try:
        with pytest.raises(CommandError) as caught:
            call_command("ensure_topics", stdout=io.StringIO())
    finally:
        embedded_kafka.start()

    assert caught.value.returncode == 1


def test_the_status_shows_every_shard(relay: RelayJob) -> None:
    relay_all(relay)
    sick = new_id()
    tell([a_change(sick)])
    poison(sick)
    relay_all(relay)
    tell([a_change(), a_change()])
    out = io.StringIO()

    call_command("outbox_status", stdout=out)

    shards = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [shard["shard"] for shard in shards] == list(range(8))
    assert {shard["ownerPid"] for shard in shards} == {relay._tenure.session.info.backend_pid}  # type: ignore[union-attr]
    assert sum(shard["ready"] for shard in shards) == 2
    assert sum(shard["blockedKeys"] for shard in shards) == sum(shard["parked"] for shard in shards) == 1
    assert max(shard["oldestAgeSeconds"] for shard in shards) > 0


def test_every_metric_is_on_a_scrape_and_counts(kafka_topics: str) -> None:
    sick = new_id()
    tell([a_change(), a_change(sick)])
    poison(sick)
    port = free_port()

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            return str(answer.read().decode())

    def value(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", scrape(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    with relay_process("--metrics-port", str(port)):
        eventually(lambda: not OutboxReady.objects.exists(), "the queue is empty", timeout=20)
        eventually(lambda: value("calendar_outbox_blocked_keys") == 1, "gauges are refreshed", timeout=15)

        assert value(f'calendar_outbox_published_total{{topic="{TOPIC}"}}') == 1
        assert value(f'calendar_outbox_publish_errors_total{{reason="MSG_SIZE_TOO_LARGE",topic="{TOPIC}"}}') == 1
        assert value("calendar_outbox_publish_latency_seconds_count") == 1
        assert value("calendar_outbox_parked") == 1
        assert value("calendar_outbox_shards_owned") == 8
        assert value("calendar_outbox_takeovers_total") == 0
        assert value("calendar_outbox_ready") == 0
        assert value("calendar_outbox_oldest_age_seconds") == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            assert json.loads(answer.read())["checks"] == {"database": "ok", "kafka": "ok"}
