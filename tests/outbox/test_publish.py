"""What `publish` promises to the one who tells a fact."""

import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction

from contracts.base import Message
from core.correlation import correlated
from core.database import constraint_name
from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady
from outbox.publish import CHANNEL, MessageTooLarge, NoTransaction, notify, publish, shard_of
from tests.outbox.messages import NOON, TENANT, a_change

pytestmark = pytest.mark.django_db(transaction=True)


def told(messages: Iterable[Message]) -> None:
    """Publish in a transaction that owns an xid, as one that has locked its aggregate does."""
    with transaction.atomic():
        own_an_xid()
        publish(messages, as_of=NOON)


def rolled_back(messages: Iterable[Message]) -> None:
    with transaction.atomic():
        own_an_xid()
        publish(messages, as_of=NOON)
        transaction.set_rollback(True)


def own_an_xid() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")


def test_a_message_is_stored_exactly_as_it_is_sent_and_queued_once() -> None:
    message = a_change()

    with correlated() as correlation:
        told([message])

    row = OutboxMessage.objects.get()
    assert row.payload == message.to_json()
    assert (row.topic, row.key, row.dedup_key) == (message.TOPIC, message.key, message.dedup_key)
    assert (row.contract_version, row.tenant_id, row.correlation_id) == (1, TENANT, correlation)
    assert (row.traceparent, row.created_at) == (None, NOON)
    assert list(OutboxReady.objects.values_list("shard", "id")) == [(shard_of(message.key), row.id)]


def test_ids_follow_the_order_of_the_list() -> None:
    messages = [a_change() for _ in range(50)]

    told(messages)

    assert list(OutboxMessage.objects.order_by("id").values_list("key", flat=True)) == [m.key for m in messages]
    assert OutboxReady.objects.count() == 50


def test_a_list_takes_one_statement_and_an_empty_one_none() -> None:
    statements: list[str] = []

    def count(execute: Callable[..., object], sql: str, *args: object) -> object:
        statements.append(sql)
        return execute(sql, *args)

    with transaction.atomic():
        own_an_xid()
        with connection.execute_wrapper(count):
            publish([], as_of=NOON)
            assert len(statements) == 0
            publish((a_change() for _ in range(3)), as_of=NOON)
            assert len(statements) == 1


def test_a_rollback_takes_the_messages_along() -> None:
    rolled_back([a_change()])

    assert not OutboxMessage.objects.exists()
    assert not OutboxReady.objects.exists()


def test_publishing_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(NoTransaction):
        publish([a_change()], as_of=NOON)


def test_publishing_before_the_transaction_owns_an_xid_is_refused() -> None:
    with pytest.raises(NoTransaction), transaction.atomic():
        publish([a_change()], as_of=NOON)

    assert not OutboxMessage.objects.exists()


def test_a_row_lock_is_enough_to_own_an_xid() -> None:
    told([a_change()])

    with transaction.atomic():
        OutboxMessage.objects.select_for_update(no_key=True).get()
        publish([a_change()], as_of=NOON)

    assert OutboxReady.objects.count() == 2


def test_a_fact_is_told_once() -> None:
    event_id = new_id()
    told([a_change(event_id, version=1)])
    told([a_change(event_id, version=2)])

    with pytest.raises(IntegrityError) as caught:
        told([a_change(event_id, version=2)])

    assert constraint_name(caught.value) == "uq_outbox_messages_told_once"
    assert OutboxMessage.objects.count() == OutboxReady.objects.count() == 2


def test_a_message_over_the_limit_is_an_error_that_names_topic_and_key() -> None:
    message = a_change(zone="x" * settings.ENV.outbox_max_message_bytes)

    with pytest.raises(MessageTooLarge, match=rf"{message.TOPIC} of key {message.key}"):
        told([a_change(), message])

    assert not OutboxMessage.objects.exists()


def test_the_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(MessageTooLarge):
        told([a_change(zone="й" * (settings.ENV.outbox_max_message_bytes // 2))])


@pytest.mark.parametrize("text", ["\x00", "a\\u0000b", '"\\', "\u2028\U0001f4c5", "%s %(x)s"])
def test_any_text_arrives_as_it_was(text: str) -> None:
    message = a_change(zone=text)

    told([message])

    assert json.loads(OutboxMessage.objects.get().payload)["timeZone"] == text


def test_what_cannot_be_serialised_rolls_its_change_back() -> None:
    broken = a_change().model_copy(update={"time_zone": "\ud800"})

    with pytest.raises(ValueError, match="surrogate"):
        told([a_change(), broken])

    assert not OutboxMessage.objects.exists()


def test_the_database_knows_eight_shards() -> None:
    with pytest.raises(IntegrityError) as caught:
        OutboxReady.objects.create(shard=8, id=1)

    assert constraint_name(caught.value) == "ck_outbox_ready_shard"
    assert {shard_of(str(new_id())) for _ in range(500)} == set(range(8))


def test_the_commit_wakes_a_listener_and_a_rollback_does_not() -> None:
    with connection.cursor() as cursor:
        cursor.execute("LISTEN outbox_ready")
    driver = connection.connection

    rolled_back([a_change()])
    assert not list(driver.notifies(timeout=0))

    told([a_change()])
    assert [heard.channel for heard in driver.notifies(timeout=2, stop_after=1)] == [CHANNEL]


def test_a_process_sends_no_notify_right_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic = iter([100.0, 100.004, 100.006, 100.007])
    monkeypatch.setattr("outbox.publish._last_notify", 0.0)
    monkeypatch.setattr("outbox.publish.time", SimpleNamespace(monotonic=lambda: next(monotonic)))
    sent: list[str] = []

    def record(execute: Callable[..., object], sql: str, *args: object) -> object:
        sent.append(sql)
        return execute(sql, *args)

    with connection.execute_wrapper(record):
        for _ in range(4):
            notify()

    assert sent == ["NOTIFY outbox_ready"] * 2
