"""What the relay promises, in one process."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from core.ids import new_id
from outbox import kafka, parking, queue, sessions
from outbox.kafka import Report, Sender
from outbox.models import OutboxMessage, OutboxReady
from outbox.publish import SHARDS
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.keep_going import always
from tests.outbox.messages import NOON, a_change
from tests.outbox.processes import end_sessions
from tests.outbox.relaying import TOPIC, heal, poison, relay_all, relay_the_rest, tell, versions
from tests.sessions import direct
from tests.waiting import eventually
from workers.job import is_infrastructure_error
from workers.stopping import Stop

pytestmark = pytest.mark.django_db(transaction=True)


def test_messages_arrive_as_stored_and_leave_the_queue(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    changes = [a_change(event_id, version=version) for version in range(1, 6)]
    tell(changes)

    result = relay_all(relay)

    assert result.counts() == {"published": 5, "failed": 0, "parked": 0}
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC]), event_id)
    assert [r.value["aggregateVersion"] for r in records] == [1, 2, 3, 4, 5]
    ids = OutboxMessage.objects.order_by("id").values_list("message_id", flat=True)
    assert [r.message_id for r in records] == [str(message_id) for message_id in ids]
    assert not OutboxReady.objects.exists()


def test_a_backlog_goes_out_in_bursts_in_order(relay: RelayJob, bootstrap: str) -> None:
    event_ids = [new_id() for _ in range(3)]
    tell(a_change(event_id, version=version) for version in range(1, 31) for event_id in event_ids)

    result = relay_all(relay, limit=7)

    assert result.published_count == 90
    for event_id in event_ids:
        assert versions(bootstrap, event_id) == list(range(1, 31))


def test_a_cycle_stops_between_bursts_when_told_to(relay: RelayJob) -> None:
    tell(a_change() for _ in range(10))
    answers = iter([True, True, False])

    result = relay.cycle(as_of=NOON, limit=2, keep_going=lambda: next(answers, False))

    assert result.is_batch_full
    assert OutboxReady.objects.count() == 10 - result.published_count > 0
    assert relay_all(relay).published_count == OutboxMessage.objects.count() - result.published_count


@contextmanager
def another_writer() -> Iterator[psycopg.Connection[Any]]:
    """A session of a writer beside the test's own."""
    with psycopg.connect(**direct(), autocommit=False) as writer:
        yield writer


def tell_by(writer: psycopg.Connection[Any], version: int, event_id: object) -> None:
    """Draw an id in the writer's open transaction, by a copy of a message that is there."""
    message_id = new_id()
    writer.execute(
        """
        WITH told AS (
            INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers,
                                         tenant_id, correlation_id, created_at)
            SELECT %(message_id)s, %(message_id)s::text, topic, %(key)s, 1,
                   (payload::jsonb || jsonb_build_object('aggregateVersion', %(version)s::int))::text,
                   (headers::jsonb || jsonb_build_object('ce_id', %(message_id)s::text))::text,
                   tenant_id, correlation_id, created_at
            FROM outbox_messages ORDER BY id LIMIT 1
            RETURNING id
        )
        INSERT INTO outbox_ready (shard, id) SELECT 0, id FROM told
        """,
        {"message_id": message_id, "key": str(event_id), "version": version},
    )


def xid(writer: psycopg.Connection[Any]) -> int:
    row = writer.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    return int(row[0])


def test_a_lower_id_that_commits_late_is_still_published(relay: RelayJob, bootstrap: str) -> None:
    tell([a_change()])
    event_id = new_id()
    with another_writer() as late, another_writer() as quick:
        xid(late)
        tell_by(late, 1, event_id)
        tell_by(quick, 1, new_id())
        quick.commit()
        for _ in range(3):
            relay_all(relay)
        late.commit()

    relay_all(relay)

    assert versions(bootstrap, event_id) == [1]
    assert not OutboxReady.objects.exists()


def test_a_lower_id_of_a_transaction_with_a_higher_xid_is_still_published(relay: RelayJob, bootstrap: str) -> None:
    """The last xid that ended is then below that of the running one: a floor by the snapshot's xmax would pass it."""
    tell([a_change()])
    relay_all(relay)
    event_id = new_id()
    with another_writer() as quick, another_writer() as late:
        assert xid(quick) < xid(late)
        tell_by(late, 1, event_id)
        tell_by(quick, 1, new_id())
        quick.commit()
        for _ in range(3):
            relay_all(relay)
        late.commit()

    relay_all(relay)

    assert versions(bootstrap, event_id) == [1]
    assert not OutboxReady.objects.exists()


@contextmanager
def before_reading_ahead(does: Callable[[], None]) -> Iterator[None]:
    """Do this once, when a burst is in hand and the next one is to be read."""
    left, reading_ahead = [does], queue.reading_ahead

    def read(session: queue.Session, **asked: Any) -> Any:
        if left:
            left.pop()()
        return reading_ahead(session, **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "reading_ahead", read)
        yield
    assert not left


def test_a_lower_id_that_commits_beside_a_burst_goes_before_those_behind_it(relay: RelayJob, bootstrap: str) -> None:
    tell([a_change()])
    relay_all(relay)
    event_id = new_id()
    with another_writer() as late, another_writer() as quick:
        xid(late)
        tell_by(late, 1, event_id)
        for _ in range(3):
            tell_by(quick, 1, new_id())
        quick.commit()

        def tell_the_others() -> None:
            late.commit()
            for version in (2, 3, 4):
                tell_by(quick, version, event_id)
                quick.commit()

        with before_reading_ahead(tell_the_others):
            relay_all(relay, limit=3)

    assert versions(bootstrap, event_id) == [1, 2, 3, 4]
    assert not OutboxReady.objects.exists()


def test_nothing_read_ahead_is_sent_after_a_refusal(relay: RelayJob, bootstrap: str) -> None:
    sick, sound = new_id(), new_id()
    tell(a_change(event_id, version=version) for version in range(1, 7) for event_id in (sick, sound))
    was = poison(sick, version=2)

    with before_reading_ahead(lambda: None):
        relay_all(relay, limit=4)

    assert (versions(bootstrap, sick), versions(bootstrap, sound)) == ([1], [1, 2, 3, 4, 5, 6])
    heal(was)
    relay_the_rest(relay)
    assert versions(bootstrap, sick) == [1, 2, 3, 4, 5, 6]


def test_a_session_lost_while_reading_ahead_loses_nothing(
    relay: RelayJob, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in range(1, 7))
    relay.cycle(as_of=NOON, limit=2, keep_going=lambda: False)
    send = Sender.send

    def send_and_lose_the_session(*burst: Any, **how: Any) -> Report:
        report = send(*burst, **how)
        end_sessions()
        return report

    with monkeypatch.context() as patch:
        patch.setattr(Sender, "send", send_and_lose_the_session)
        with pytest.raises(psycopg.OperationalError):
            relay_all(relay, limit=2)

    assert versions(bootstrap, event_id) == [1, 2]
    relay_all(relay)
    assert versions(bootstrap, event_id) == [1, 2, 1, 2, 3, 4, 5, 6]


def test_shards_given_back_take_what_was_read_ahead_with_them(relay: RelayJob, bootstrap: str) -> None:
    event_ids = [new_id() for _ in range(40)]
    tell(a_change(event_id, version=version) for version in (1, 2) for event_id in event_ids)
    shard_of = dict(OutboxReady.objects.order_by("id").values_list("id", "shard"))
    relay.cycle(as_of=NOON, limit=20, keep_going=lambda: False)
    ours = relay._tenure
    assert ours is not None
    with closing(RelayJob()) as second:

        def join() -> None:
            second.cycle(as_of=NOON, limit=20, keep_going=lambda: False)
            ours._rebalancing.reopen()

        with before_reading_ahead(join):
            relay_all(relay, limit=20)
        left = OutboxReady.objects.values_list("id", flat=True)
        assert {shard_of[id] for id in left}.isdisjoint(ours.shards)
        assert {shard_of[id] for id in list(shard_of)[20:] if id not in left} == set(ours.shards)

        def all_is_published() -> bool:
            relay_all(second)
            return not OutboxReady.objects.exists()

        eventually(all_is_published, "the second relay publishes the rest", timeout=20)

    assert all(versions(bootstrap, event_id) == [1, 2] for event_id in event_ids)


def test_a_rolled_back_message_is_never_seen(relay: RelayJob, bootstrap: str) -> None:
    tell([a_change()])
    event_id = new_id()
    with another_writer() as writer:
        xid(writer)
        tell_by(writer, 1, event_id)
        relay_all(relay)
        writer.rollback()

    relay_all(relay)

    assert versions(bootstrap, event_id) == []


def buffers_of_an_empty_poll(relay: RelayJob) -> int:
    """Pages that PostgreSQL touches to find nothing."""
    relay_all(relay)
    tenure = relay._tenure
    assert tenure is not None
    plan = tenure.session.execute(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + queue.read_statement(tenure.shards),
        queue.reading(above=tenure.floor.id, limit=2_000),
    ).fetchone()
    assert plan is not None
    top = plan[0][0]["Plan"]
    assert top["Actual Rows"] == 0
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def test_an_empty_poll_stays_flat_while_a_reader_holds_the_horizon(relay: RelayJob) -> None:
    tell([a_change()])
    relay_all(relay)
    empty = buffers_of_an_empty_poll(relay)
    with psycopg.connect(**direct()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM outbox_messages")
        for _ in range(10):
            tell(a_change() for _ in range(500))
            relay_all(relay)

        assert buffers_of_an_empty_poll(relay) <= empty + 8


def test_a_relay_that_takes_over_does_not_walk_what_was_deleted(relay: RelayJob, kafka_topics: str) -> None:
    with psycopg.connect(**direct()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM outbox_messages")
        tell(a_change() for _ in range(3_000))
        relay_all(relay)
        relay.close()
        successor = RelayJob()
        relay_all(successor)

        assert buffers_of_an_empty_poll(successor) < 60

        successor.close()


def test_a_backlog_is_looked_up_by_index_also_with_plans_made_for_an_empty_queue(relay: RelayJob) -> None:
    """A plan that scans is good while there is nothing, and PostgreSQL keeps it when a burst comes."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE outbox_messages, outbox_ready, outbox_parked, outbox_blocked_keys")
    relay_all(relay)
    session, nothing = relay._tenure.session, [queue.Row(1, 0, TOPIC, "key", "", "")]  # type: ignore[union-attr]
    for _ in range(10):  # so often that every statement has settled for its plan
        queue.read(session, shards=range(SHARDS), above=0, limit=2_000)
        queue.acknowledge(session, nothing)
        parking.hold(session, nothing, as_of=NOON)
    sick = new_id()
    tell([a_change(sick, version=1)])
    poison(sick)
    relay_all(relay)
    before = index_entries_read(relay)
    tell(a_change() for _ in range(2_000))
    tell(a_change(sick, version=version) for version in range(2, 2_002))

    result = relay_all(relay)

    assert (result.published_count, result.parked_count) == (2_000, 2_000)
    assert index_entries_read(relay) - before < 20 * 4_000


def index_entries_read(relay: RelayJob) -> int:
    """By all statements on the outbox so far; a session tells of its own at its end."""
    tenure = relay._tenure
    assert tenure is not None
    tenure.session.execute("SELECT pg_stat_force_next_flush()")
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname LIKE 'outbox%'")
        return int(cursor.fetchone()[0])


def test_a_relay_that_lost_its_session_publishes_nothing(relay: RelayJob, bootstrap: str) -> None:
    relay_all(relay)
    event_id = new_id()
    tell([a_change(event_id)])
    assert relay._tenure is not None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [relay._tenure.session.info.backend_pid])

    with pytest.raises(psycopg.OperationalError) as caught:
        relay_all(relay)

    assert is_infrastructure_error(caught.value)
    assert versions(bootstrap, event_id) == []
    assert relay_all(relay).published_count == 1


def test_a_commit_wakes_a_waiting_relay_and_once_more_for_what_was_left_unsaid(relay: RelayJob) -> None:
    stop = Stop(beat=lambda: None)
    relay.wait_for_work(0, stop=stop)
    tell([a_change()])
    started = time.monotonic()

    relay.wait_for_work(20, stop=stop)
    relay.wait_for_work(20, stop=stop)

    assert time.monotonic() - started < 10


def test_a_lost_listener_is_no_error_and_comes_back(relay: RelayJob) -> None:
    stop = Stop(beat=lambda: None)
    relay.wait_for_work(0, stop=stop)
    assert relay._listener is not None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [relay._listener.info.backend_pid])

    relay.wait_for_work(0.05, stop=stop)
    relay.wait_for_work(0.01, stop=stop)

    assert relay._listener is not None
    assert not relay._listener.closed


def test_a_relay_starts_without_a_warning_and_the_producer_can_still_warn(
    relay: RelayJob, caplog: pytest.LogCaptureFixture
) -> None:
    tell([a_change()])
    assert relay_all(relay).published_count == 1
    assert [record.getMessage() for record in caplog.records if record.name.startswith("kafka")] == []

    kafka.producer_settings()["logger"].warning("CONFWARN [thrd:app]: Configuration property linger.ms is odd")

    assert [record.name for record in caplog.records] == ["kafka.producer"]


def test_a_pooler_is_detected(relay: RelayJob, monkeypatch: pytest.MonkeyPatch, pooler_port: int) -> None:
    monkeypatch.setitem(connection.settings_dict, "PORT", pooler_port)

    with pytest.raises(sessions.PoolerDetected, match="direct connection"):
        relay.cycle(as_of=NOON, limit=10, keep_going=always)
