"""Relays as real processes, killed, paused and cut off under writers: lost 0, first deliveries out of order 0.

CHAOS_ROUNDS is how often each is done to them; `make soak` asks for many.
"""

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from django.db import connection

from core.ids import new_id
from dev.postgres import EmbeddedPostgres
from outbox.models import OutboxMessage
from tests.outbox.messages import a_change
from tests.outbox.processes import end_sessions, owners, relay_process
from tests.outbox.relaying import tell
from tests.outbox.writers import Writers, assert_nothing_lost_or_out_of_order, until_empty
from tests.waiting import eventually
from tests.workers.processes import database_url

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
Relay = subprocess.Popen[bytes]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180 + 30 * ROUNDS)]


class Relays:
    """Two of them that live, in any order."""

    def __init__(self, start: Callable[[], Relay], *, dice: random.Random) -> None:
        self._start = start
        self._dice = dice
        self.living = [start(), start()]
        until_all_are_owned(by=2)

    def one(self) -> Relay:
        return self._dice.choice(self.living)

    def replace(self, victim: Relay) -> None:
        victim.kill()
        victim.wait()
        self.living.remove(victim)
        self.living.append(self._start())


def until_all_are_owned(*, by: int | None = None) -> None:
    def are_owned() -> bool:
        held = owners()
        return len(held) == 8 and by in (None, len(set(held.values())))

    eventually(are_owned, "all shards are owned", timeout=30)


@contextmanager
def reader_that_holds_xmin() -> Iterator[None]:
    """A report that reads for as long as the block lasts: nothing that dies meanwhile can be vacuumed."""
    with psycopg.connect(database_url()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM outbox_messages")
        yield


@pytest.fixture
def start_relay() -> Iterator[Callable[[], Relay]]:
    """Starts relays that end with the test."""
    with ExitStack() as running:
        yield lambda: running.enter_context(relay_process())


def test_kill_9_at_any_moment_loses_nothing_and_keeps_the_order(
    kafka_topics: str, start_relay: Callable[[], Relay]
) -> None:
    relays = Relays(start_relay, dice=random.Random(7))
    with reader_that_holds_xmin(), Writers(count=3, keys=24) as writers:
        for _ in range(3 * ROUNDS):
            writers.have_written(60)
            until_all_are_owned()
            relays.replace(relays.one())

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_a_paused_relay_that_lost_its_shards_breaks_no_order(
    kafka_topics: str, start_relay: Callable[[], Relay]
) -> None:
    relays = Relays(start_relay, dice=random.Random(8))
    with reader_that_holds_xmin(), Writers(count=3, keys=24) as writers:
        for _ in range(ROUNDS):
            paused = relays.one()
            os.kill(paused.pid, signal.SIGSTOP)
            lost = set(owners().values())
            end_sessions()
            until_all_are_owned(by=1)
            assert not lost & set(owners().values())
            writers.have_written(60)
            os.kill(paused.pid, signal.SIGCONT)
            until_all_are_owned(by=2)

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_relays_whose_sessions_are_cut_come_back(kafka_topics: str, start_relay: Callable[[], Relay]) -> None:
    relays = Relays(start_relay, dice=random.Random(9))
    with Writers(count=3, keys=24) as writers:
        for _ in range(3 * ROUNDS):
            writers.have_written(30)
            end_sessions()
            until_all_are_owned()

    until_empty()

    assert [relay.poll() for relay in relays.living] == [None, None]
    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


@pytest.mark.parametrize("outage", [EmbeddedPostgres.stop, EmbeddedPostgres.kill], ids=["restart", "crash"])
def test_a_restart_of_postgresql_under_writers_and_relays(
    kafka_topics: str,
    start_relay: Callable[[], Relay],
    embedded_postgres: EmbeddedPostgres,
    outage: Callable[[EmbeddedPostgres], None],
) -> None:
    start_relay()
    until_all_are_owned()
    with Writers(count=3, keys=24) as writers:
        for _ in range(ROUNDS):
            writers.have_written(30)
            outage(embedded_postgres)
            embedded_postgres.start()
            connection.close()
            writers.have_written(30)

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_sigterm_ends_a_busy_relay_quickly_and_cleanly(kafka_topics: str, start_relay: Callable[[], Relay]) -> None:
    relay = start_relay()
    with Writers(count=2, keys=10) as writers:
        until_all_are_owned()
        writers.have_written(50)
        relay.terminate()
        assert relay.wait(timeout=5) == 0
        assert owners() == {}
        start_relay()

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, writers.committed())


def test_two_relays_publish_a_backlog_in_order(kafka_topics: str, start_relay: Callable[[], Relay]) -> None:
    keys = [new_id() for _ in range(40)]
    tell(a_change(key, version=version) for version in range(1, 51) for key in keys)
    assert OutboxMessage.objects.count() == 2_000
    start_relay(), start_relay()

    until_empty()

    assert_nothing_lost_or_out_of_order(kafka_topics, {str(key): 50 for key in keys})
