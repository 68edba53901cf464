"""Apache Kafka as a server of the tests: it keeps its data, its address, and no life after its owner's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dev.apache_kafka import ApacheKafka, is_fetched
from dev.workspace import Workspace
from tests import kafka_reader
from tests.dev.processes import ROOT, is_gone, python, read_line
from tests.kafka_client import settings_for
from tests.kafka_writer import Writer
from tests.waiting import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not is_fetched(), reason="Apache Kafka is not here; `make kafka` fetches and runs it"),
]


@pytest.fixture(scope="module")
def node() -> Iterator[ApacheKafka]:
    with Workspace("test-dev") as workspace, ApacheKafka(workspace) as node:
        yield node


def write(node: ApacheKafka, topic: str, *keys: str) -> None:
    writer = Writer(node.bootstrap_servers)
    for key in keys:
        writer.put(topic, b"{}", key=key, headers={})


def keys_in(node: ApacheKafka, topic: str) -> list[str]:
    return [record.key for record in kafka_reader.read_all(node.bootstrap_servers, [topic], timeout=30)]


def test_what_was_acknowledged_survives_a_stop_and_a_crash(node: ApacheKafka) -> None:
    address = node.start()
    admin = AdminClient(settings_for(address))
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
    write(node, "kept", "one")

    assert node.restart() == address
    write(node, "kept", "two")
    node.kill()
    assert node.pid is None
    assert node.start() == address

    assert keys_in(node, "kept") == ["one", "two"]


def test_a_start_while_it_runs_and_a_stop_while_it_does_not_are_harmless(node: ApacheKafka) -> None:
    node.start()
    pid = node.pid
    assert pid is not None
    node.start()
    assert node.pid == pid

    node.stop()
    assert is_gone(pid)
    assert node.pid is None
    node.stop()


def test_topics_are_not_made_by_the_way(node: ApacheKafka) -> None:
    node.start()
    asked = AdminClient({**settings_for(node.bootstrap_servers), "allow.auto.create.topics": True})

    asked.list_topics("unknown", timeout=30)

    assert "unknown" not in asked.list_topics(timeout=30).topics


OWNER = """
import json
from dev.apache_kafka import ApacheKafka
from dev.workspace import Workspace
with Workspace("test-owner") as workspace, ApacheKafka(workspace) as node:
    print(json.dumps(node.pid), flush=True)
    input()
"""


def test_it_dies_with_a_killed_owner() -> None:
    owner = python(OWNER)
    pid = json.loads(read_line(owner))
    assert not is_gone(pid)

    owner.kill()
    owner.wait()

    eventually(lambda: is_gone(pid), "the end of the node")


def test_where_there_is_no_java_a_sentence_says_so() -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "dev.apache_kafka", "--fetch"],
        cwd=ROOT,
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert asked.returncode == 1
    assert asked.stderr == "Apache Kafka is not to be had here: Java is not installed\n"
