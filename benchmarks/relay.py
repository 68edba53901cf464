"""The relay: against the bare producer, behind a dead key, side by side, and against published packages."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import orjson
import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from django.core.management import call_command

from benchmarks import database, messages
from benchmarks.peers import outboxes
from benchmarks.peers.project import present
from benchmarks.processes import worker
from benchmarks.runner import Contender, Report, Row, rates, ratio
from core import sql
from core.ids import new_id
from outbox.kafka import producer_settings
from outbox.ownership import OWNERS
from outbox.publish import CHANNEL, SHARDS
from tests.waiting import eventually
from tests.workers.processes import database_url
from workers import topics
from workers.kafka import client_settings, is_embedded

_DEAD = 100_000
_SECONDS = 300


class _Backlog:
    """A queue that appears in one moment, before relays that are ready for it."""

    def __init__(self, template: str, *, relays: int, count: int) -> None:
        self._template = template
        self._relays = relays
        self._count = count

    @contextmanager
    def prepared(self) -> Iterator[None]:
        with database.copy(self._template), ExitStack() as running:
            environ = {**os.environ, "DATABASE_URL": database_url()}
            for _ in range(self._relays):
                running.enter_context(worker("run_outbox_relay", environ=environ))
            _wait_for_owners(self._relays)
            self._arrivals = messages.Arrivals()
            with psycopg.connect(database_url()) as self._writer:
                messages.tell(self._writer, self._count)
                lasts = self._writer.execute("SELECT shard, max(id) FROM outbox_ready GROUP BY shard").fetchall()
                self._lasts: list[tuple[int, int]] = lasts
                sql.execute("CHECKPOINT")  # so that the relays do not share the disk with what made their work
                yield

    def publish(self) -> int:
        self._writer.commit()
        sql.execute(f"NOTIFY {CHANNEL}")
        _wait_until_gone(self._lasts)
        return self._count

    def check(self, items: int) -> None:
        """Nothing is left in the queue; every message came once, and each key's in order."""
        assert sql.fetch("SELECT count(*) FROM outbox_ready") == [(0,)]
        keys = [key for (key,) in sql.fetch("SELECT DISTINCT key FROM outbox_messages")]
        seen = self._arrivals.versions(keys, count=items)
        assert sum(map(len, seen.values())) == items
        assert all(versions == list(range(1, len(versions) + 1)) for versions in seen.values())


class _Bare:
    """The producer with the relay's settings, and the records made ready in memory."""

    def __init__(self, *, count: int) -> None:
        self._count = count

    @contextmanager
    def prepared(self) -> Iterator[None]:
        with database.copy("empty"), psycopg.connect(database_url(), autocommit=True) as writer:
            messages.tell(writer, self._count)
            found = sql.fetch("SELECT topic, payload, key, headers FROM outbox_messages ORDER BY id")
        self._records = [(topic, payload, key, orjson.loads(headers)) for topic, payload, key, headers in found]
        self._producer = Producer(producer_settings())
        self._producer.list_topics(timeout=30)
        yield

    def publish(self) -> int:
        produce, poll = self._producer.produce, self._producer.poll
        for topic, payload, key, headers in self._records:
            while True:
                try:
                    produce(topic, payload, key, headers=headers)
                    break
                except BufferError:
                    poll(0.01)
        assert self._producer.flush(_SECONDS) == 0
        return len(self._records)


@contextmanager
def _on_an_empty_topic(prepared: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """The embedded broker keeps every batch in memory, and the more it has of them, the longer each new one takes: as
    the database is a fresh copy for each run, so is the topic. Nothing is deleted from any other broker."""
    if is_embedded():
        admin = AdminClient(client_settings())
        admin.delete_topics([messages.TOPIC], operation_timeout=30)[messages.TOPIC].result()
        topics.ensure([messages.TOPIC])
    with prepared():
        yield


_WHY_BELOW_THE_BARE_PRODUCER = (
    "by timers over 400,000 messages the relay hands messages to the client for 48 % of its time, which is all that "
    "the bare producer does, its records ready in memory; it waits for the last acknowledgements of a burst for 14 %, "
    "takes the next burst, which PostgreSQL has read meanwhile, for 14 %, and notes what was acknowledged for 14 %. "
    "The relay, the client's own thread, PostgreSQL and the broker share the cores; where a neighbour slows them, the "
    "one that needs more of them loses more."
)


def _wait_for_owners(relays: int) -> None:
    def are_ready() -> bool:
        owned = sql.fetch(OWNERS)
        return len(owned) == SHARDS and len({pid for _, pid in owned}) == relays

    eventually(are_ready, f"{relays} relays own the shards", timeout=60)


def _wait_until_gone(lasts: Sequence[tuple[int, int]]) -> None:
    """The last of each shard, each looked for by its key: a scan would walk all that the relays have deleted."""
    left = list(lasts)

    def are_gone() -> bool:
        while left and not sql.fetch("SELECT FROM outbox_ready WHERE shard = %s AND id = %s", left[0]):
            del left[0]
        return not left

    eventually(are_gone, "the queue is empty", timeout=_SECONDS, poll=0.02)


def _park_behind_a_dead_key(count: int) -> None:
    """So many messages of one key, the first of which Kafka will never take."""
    sql.execute(
        """
        WITH made AS MATERIALIZED (
            SELECT uuidv7() AS message_id, %(key)s AS key, n FROM generate_series(1, %(count)s) AS n
        ), told AS (
            INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers,
                                         tenant_id, correlation_id, created_at)
            SELECT message_id, message_id::text, %(topic)s, key, 1,
                   CASE n WHEN 1 THEN repeat('x', 2000000) ELSE repeat('x', 600) END, '{}', message_id, message_id,
                   now()
            FROM made ORDER BY n RETURNING id, topic, key
        ), parked AS (
            INSERT INTO outbox_parked (id, topic, key, parked_at) SELECT id, topic, key, now() FROM told
        )
        INSERT INTO outbox_blocked_keys (topic, key, shard, reason, error, attempt_count, blocked_at, next_attempt_at)
        VALUES (%(topic)s, %(key)s, crc32(convert_to(%(key)s, 'UTF8')) %% 8, 'MSG_SIZE_TOO_LARGE', '', 1, now(), now())
        """,
        {"count": count, "key": str(new_id()), "topic": messages.TOPIC},
    )


def measure(*, runs: int, items: int) -> Report:
    """All in one run; the packages over a sample, since a rate is a rate."""
    call_command("ensure_topics", verbosity=0)
    with database.template("empty"):
        pass
    with database.template("dead"):
        _park_behind_a_dead_key(_DEAD)
    ours, bare, dead = "relay", "bare producer", f"relay with {_DEAD:,} messages behind one dead key"
    two, four = "2 relays", "4 relays"
    bare_producer = _Bare(count=items)
    contenders = [Contender(bare, bare_producer.publish, bare_producer.prepared)]
    for name, template, relays in (
        (ours, "empty", 1),
        (dead, "dead", 1),
        (two, "empty", 2),
        (four, "empty", 4),
    ):
        backlog = _Backlog(template, relays=relays, count=items)
        contenders.append(Contender(name, backlog.publish, backlog.prepared, backlog.check))
    remarks = [
        f"{items:,} messages of {messages.BYTES} bytes and {messages.KEYS:,} keys appear in the queue at one commit, "
        "before relays that are ready; the end is when the last acknowledgement is noted. After each run every message "
        "is read back from Kafka: once, in order within its key. The bare producer has the relay's settings, and its "
        f"records in memory. Broker: {database.broker()}; there, which slows down with what it holds, each run has an "
        "empty topic."
    ]
    peers = present(outboxes.all_of(count=items // 50), remarks=remarks)
    contenders += [Contender(peer.name, peer.publish, peer.prepared, peer.check) for peer in peers]
    measured = rates(
        [replace(contender, prepared=partial(_on_an_empty_topic, contender.prepared)) for contender in contenders],
        runs=runs,
    )
    rows = [
        Row(ours, bare, ratio(measured, ours, bare), 0.3, why=_WHY_BELOW_THE_BARE_PRODUCER),
        Row(dead, ours, ratio(measured, dead, ours), 0.95),
        Row(two, ours, ratio(measured, two, ours), 1),
        Row(four, ours, ratio(measured, four, ours), 1),
        *(Row(ours, peer.name, ratio(measured, ours, peer.name), 50) for peer in peers),
    ]
    if peers:
        remarks.append(
            f"The published packages: {items // 50:,} messages of about {messages.BYTES} bytes and {messages.KEYS:,} "
            "keys, one worker, in an environment of its own; every message is read back from Kafka, once. "
            + " ".join(peer.remark for peer in peers)
        )
    for name in ("empty", "dead"):
        database.drop(name)
    return Report(
        subject="relay",
        title="Publishing the outbox",
        command=f'make bench ARGS="relay --runs {runs} --items {items}"',
        rows=rows,
        figures=list(measured.items()),
        unit="messages a second",
        remarks=remarks,
    )
