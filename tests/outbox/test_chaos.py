"""Relays as real processes, killed and paused under writers: lost 0, first deliveries out of order 0."""

import os
import random
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import UUID

import pytest
from django.db import connection, connections, transaction

from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady
from outbox.publish import publish
from tests import kafka_reader
from tests.outbox.messages import NOON, a_change
from tests.outbox.processes import end_sessions, owners, relay_process
from tests.outbox.relaying import TOPIC, tell
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


class Writers:
    """Threads that change aggregates as the application does: lock, tell, commit; some slowly, some not at all."""

    def __init__(self, *, count: int, keys: int) -> None:
        self._keys = [new_id() for _ in range(keys)]
        self._versions: dict[UUID, int] = defaultdict(int)
        self._locks = {key: threading.Lock() for key in self._keys}
        self._is_stopping = False
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(count)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def committed(self) -> dict[str, int]:
        """The number of changes by key."""
        return {str(key): version for key, version in self._versions.items() if version}

    def _write(self, seed: int) -> None:
        dice = random.Random(seed)
        try:
            while not self._is_stopping:
                self._change(dice.sample(self._keys, 2), fate=dice.random())
        except BaseException as error:
            self._errors.append(error)
        finally:
            connections.close_all()

    def _change(self, keys: list[UUID], *, fate: float) -> None:
        with ExitStack() as held:
            for key in sorted(keys):
                held.enter_context(self._locks[key])
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT pg_current_xact_id()")
                if fate < 0.1:
                    cursor.execute("SELECT pg_sleep(0.02)")
                publish([a_change(key, version=self._versions[key] + 1) for key in keys], as_of=NOON)
                if fate < 0.2:
                    cursor.execute("SELECT pg_sleep(0.05)")
                transaction.set_rollback(fate > 0.9)
            if fate <= 0.9:
                for key in keys:
                    self._versions[key] += 1


def assert_nothing_lost_or_out_of_order(bootstrap: str, committed: dict[str, int]) -> None:
    """A consumer that reads from the start sees each change of each key, the first time in order."""
    records = [r for r in kafka_reader.read_all(bootstrap, [TOPIC]) if r.key in committed]
    stored = {str(m.message_id): m.payload for m in OutboxMessage.objects.filter(key__in=committed)}
    assert {r.message_id for r in records} == set(stored)
    seen: dict[str, list[int]] = defaultdict(list)
    for record in kafka_reader.first_deliveries(records):
        seen[record.key].append(record.value["aggregateVersion"])
    assert dict(seen) == {key: list(range(1, count + 1)) for key, count in committed.items()}


def until_empty() -> None:
    eventually(lambda: not OutboxReady.objects.exists(), "the queue is empty", timeout=20)


@pytest.fixture
def relays() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts relays that end with the test."""
    with ExitStack() as running:
        yield lambda: running.enter_context(relay_process())


def test_kill_9_at_any_point_loses_nothing_and_keeps_the_order(
    kafka_topics: str, relays: Callable[[], subprocess.Popen[bytes]]
) -> None:
    living = [relays(), relays()]
    eventually(lambda: len(set(owners().values())) == 2 and len(owners()) == 8, "two relays share", timeout=20)
    dice = random.Random(7)
    with Writers(count=3, keys=24) as writers:
        for _ in range(4):
            told = OutboxMessage.objects.count()
            eventually(lambda enough=told + 60: OutboxMessage.objects.count() >= enough, "writers write")  # type: ignore[misc]
            eventually(lambda: len(owners()) == 8, "all shards are published", timeout=20)
            victim = living.pop(dice.randrange(len(living)))
            victim.kill()
            victim.wait()
            living.append(relays())

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())
    assert sum(writers.committed().values()) > 200


def test_a_paused_relay_that_lost_its_shards_breaks_no_order(
    kafka_topics: str, relays: Callable[[], subprocess.Popen[bytes]]
) -> None:
    paused = relays()
    eventually(lambda: len(owners()) == 8, "it owns all", timeout=20)
    with Writers(count=3, keys=24) as writers:
        for _ in range(2):
            os.kill(paused.pid, signal.SIGSTOP)
            lost = set(owners().values())
            end_sessions()
            successor = relays()
            eventually(lambda: len(owners()) == 8, "the successor owns all", timeout=20)
            assert not lost & set(owners().values())
            told = OutboxMessage.objects.count()
            eventually(lambda enough=told + 60: OutboxMessage.objects.count() >= enough, "writers write")  # type: ignore[misc]
            os.kill(paused.pid, signal.SIGCONT)
            eventually(lambda: len(set(owners().values())) == 2, "it comes back and gets a share", timeout=20)
            successor.kill()
            successor.wait()
            eventually(lambda: len(owners()) == 8, "it owns all again", timeout=20)

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_sigterm_ends_a_busy_relay_quickly_and_cleanly(
    kafka_topics: str, relays: Callable[[], subprocess.Popen[bytes]]
) -> None:
    relay = relays()
    with Writers(count=2, keys=10) as writers:
        eventually(lambda: len(owners()) == 8, "it owns all", timeout=20)
        eventually(lambda: OutboxMessage.objects.count() > 50, "writers write")
        started = time.monotonic()
        relay.terminate()
        assert relay.wait(timeout=5) == 0
        assert time.monotonic() - started < 5
        assert owners() == {}
        relays()

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_two_relays_publish_a_backlog_in_order(
    kafka_topics: str, relays: Callable[[], subprocess.Popen[bytes]]
) -> None:
    keys = [new_id() for _ in range(40)]
    for version in range(1, 51):
        tell(a_change(key, version=version) for key in keys)
    relays(), relays()

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, {str(key): 50 for key in keys})
