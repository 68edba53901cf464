"""Each message has its effect once; what can't be handled is put aside; nothing is lost while something is away."""

import datetime
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from uuid import UUID

import orjson
import pytest
import structlog
from django.db import OperationalError, connection, transaction
from prometheus_client import CollectorRegistry

from core.correlation import correlation_id
from core.errors import Inconsistent, Refused
from core.ids import new_id
from tests import kafka_reader
from tests.kafka_writer import Writer
from tests.waiting import eventually
from tests.workers.consuming import NOON, Doing, FakeConsumer, Note, a_note, a_topic, nothing, read_all
from workers import inbox, topics
from workers.consumer import _SLICE_SECONDS, Received
from workers.dead_letters import topic_for
from workers.job import JobUnavailable
from workers.models import ProcessedMessage
from workers.reader import Reader
from workers.stopping import Stop

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = "pin-calendar-fake"


class Desk:
    """A topic of its own, a writer to it, and consumers of it."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self.contract = a_topic()
        self.bootstrap = bootstrap
        self.writer = Writer(bootstrap)
        self._stack = stack
        topics.ensure([self.contract.TOPIC])

    def note(self, number: int) -> Note:
        return a_note(self.contract, number)

    def tell(self, *numbers: int, message_ids: Iterable[UUID] = ()) -> list[UUID]:
        return self.writer.tell(*map(self.note, numbers), message_ids=message_ids)

    def consumer(self, does: Doing = nothing) -> FakeConsumer:
        """One that leaves the group at the end of the test."""
        return self._stack.enter_context(closing(FakeConsumer(self.contract, does)))

    def dead_letters(self) -> list[kafka_reader.Record]:
        return kafka_reader.read_all(self.bootstrap, [topic_for(self.contract.TOPIC, group=GROUP)])


@pytest.fixture
def desk(bootstrap: str) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(bootstrap, stack)


def test_a_message_has_its_effect_once_however_often_it_is_told(desk: Desk) -> None:
    ids = desk.tell(*range(3))
    desk.tell(*range(3), message_ids=ids)

    consumer = desk.consumer()
    result = read_all(consumer)

    assert consumer.seen == [0, 1, 2]
    assert result.counts() == {"handled_count": 3, "repeated_count": 3, "failed_count": 0}
    assert set(ProcessedMessage.objects.values_list("consumer", "message_id")) == {(GROUP, i) for i in ids}


def test_a_message_whose_offset_was_not_committed_is_delivered_again_and_does_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.tell(*range(3))
    crashing, heir = desk.consumer(), desk.consumer()
    with monkeypatch.context() as patch:
        patch.setattr(Reader, "settle", lambda self, undone: None)
        read_all(crashing)
    crashing.close()

    result = read_all(heir)

    assert (crashing.seen, heir.seen, result.repeated_count) == ([0, 1, 2], [], 3)


def test_offsets_are_committed_so_that_an_heir_begins_after_them(desk: Desk) -> None:
    desk.tell(*range(3))
    first, heir = desk.consumer(), desk.consumer()
    read_all(first)
    first.close()
    desk.tell(3)

    result = read_all(heir)

    assert (heir.seen, result.handled_count, result.repeated_count) == ([3], 1, 0)


def test_unreadable_messages_are_put_aside_with_the_reason_and_their_partition_goes_on(desk: Desk) -> None:
    with_id = {"ce_id": str(new_id())}
    healthy = desk.note(1).to_json()
    poison: list[tuple[str, dict[str, str], str]] = [
        ("not json", with_id, "value: json_invalid"),
        ('{"number": 1}', with_id, "tenantId: missing"),
        ('{"tenantId": "Иван", "number": 1}', with_id, "tenantId: uuid_parsing"),
        ("", with_id, "value: json_invalid"),
        (healthy[:-1] + ',"at":"0001-01-01T00:00:00+05:00"}', with_id, "at: value_error"),
        (healthy[:-1] + ',"at":"9999-12-31T23:59:59-05:00"}', with_id, "at: value_error"),
        (healthy, {}, "header ce_id: no UUID"),
        (healthy, {"ce_id": "7"}, "header ce_id: no UUID"),
    ]
    for value, headers, _ in poison:
        desk.writer.put(desk.contract.TOPIC, value, key="poison", headers=headers)
    desk.tell(0, 1)
    consumer = desk.consumer()

    result = read_all(consumer)

    assert (consumer.seen, result.failed_count) == ([0, 1], len(poison))
    letters = sorted(desk.dead_letters(), key=lambda letter: int(letter.headers["dlt_offset"]))
    for offset, ((_, headers, error), letter) in enumerate(zip(poison, letters, strict=True)):
        assert letter.key == "poison"
        assert letter.headers == headers | {
            "dlt_topic": desk.contract.TOPIC,
            "dlt_partition": "0",
            "dlt_offset": str(offset),
            "dlt_group": GROUP,
            "dlt_reason": "unreadable",
            "dlt_error": error,
        }
    assert letters[0].value == b"not json"
    assert not any(read_all(consumer).counts().values())


class TooOld(Refused):
    """A rule's no, for the tests."""

    code = "too_old"


@pytest.mark.parametrize(
    ("error", "reason", "attempts"),
    [(TooOld("it is of 2001"), "too_old", 1), (Inconsistent("two of it"), "inconsistent", 1), (KeyError(), "error", 3)],
)
def test_a_message_that_breaks_a_rule_leaves_no_effect_and_is_put_aside(
    desk: Desk, error: Exception, reason: str, attempts: int
) -> None:
    tried: list[int] = []

    def refuse_the_first(note: Note, received: Received) -> None:
        tried.append(note.number)
        if note.number == 0:
            inbox.claim(new_id(), consumer="effect", as_of=NOON)
            raise error

    poison, healthy = desk.tell(*range(2))
    consumer = desk.consumer(refuse_the_first)

    result = read_all(consumer)

    assert tried == [0] * attempts + [1]
    assert (result.handled_count, result.failed_count) == (1, 1)
    assert [row.message_id for row in ProcessedMessage.objects.all()] == [healthy]
    (letter,) = desk.dead_letters()
    assert (letter.headers["ce_id"], letter.headers["dlt_reason"]) == (str(poison), reason)
    assert letter.value == {"contractVersion": 1, "tenantId": "00000000-0000-0000-0000-000000000001", "number": 0}


@pytest.mark.parametrize("error", [OperationalError("server closed the connection"), JobUnavailable("mail is away")])
def test_while_something_is_away_no_message_is_lost_or_overtaken(desk: Desk, error: Exception) -> None:
    away = [True]

    def fail_while_away(note: Note, received: Received) -> None:
        if note.number == 1 and away:
            raise error

    desk.tell(*range(4))
    consumer = desk.consumer(fail_while_away)
    for _ in range(2):
        with pytest.raises(type(error)):
            read_all(consumer)
    assert consumer.seen == [0]

    away.clear()
    result = read_all(consumer)

    assert consumer.seen == [0, 1, 2, 3]
    assert (result.handled_count, result.repeated_count, result.failed_count) == (3, 0, 0)


def test_a_message_that_meets_a_locked_row_is_tried_again_and_not_put_aside(desk: Desk) -> None:
    (message_id,) = desk.tell(0)
    taken, release = threading.Event(), threading.Event()

    def handle_it_elsewhere() -> None:
        with transaction.atomic():
            inbox.claim(message_id, consumer=GROUP, as_of=NOON)
            taken.set()
            release.wait(20)
        connection.close()

    elsewhere = threading.Thread(target=handle_it_elsewhere)
    elsewhere.start()
    taken.wait(20)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    consumer = desk.consumer()
    with pytest.raises(OperationalError):
        read_all(consumer)
    release.set()
    elsewhere.join(20)

    assert read_all(consumer).repeated_count == 1
    assert consumer.seen == []


def test_what_is_left_at_a_stop_is_read_by_the_next_one(desk: Desk) -> None:
    desk.tell(*range(5))
    first, heir = desk.consumer(), desk.consumer()

    result = read_all(first, keep_going=lambda: len(first.seen) < 2)
    first.close()

    assert (first.seen, result.handled_count) == ([0, 1], 2)
    read_all(heir)
    assert heir.seen == [2, 3, 4]


def test_a_batch_is_bounded_and_says_that_there_is_more(desk: Desk) -> None:
    desk.tell(*range(5))
    consumer = desk.consumer()

    first, second = read_all(consumer, limit=3), read_all(consumer, limit=3)

    assert (first.handled_count, first.is_batch_full) == (3, True)
    assert (second.handled_count, second.is_batch_full) == (2, False)


def test_the_lag_counts_what_is_still_to_be_handled(desk: Desk) -> None:
    desk.tell(*range(5))
    consumer = desk.consumer()
    registry = CollectorRegistry()
    metrics = consumer.make_metrics(registry)

    def lag() -> float | None:
        metrics.refresh(NOON)
        return registry.get_sample_value("fake_consumer_consumer_lag", {"topic": desk.contract.TOPIC})

    read_all(consumer, limit=2)
    assert lag() == 3
    read_all(consumer)
    assert lag() == 0
    labels = {"topic": desk.contract.TOPIC, "outcome": "handled"}
    assert registry.get_sample_value("fake_consumer_messages_total", labels) == 5


def test_waiting_ends_with_a_message_and_with_a_stop(desk: Desk) -> None:
    consumer = desk.consumer()
    read_all(consumer)
    beats: list[int] = []

    def tell_at_the_second() -> None:
        beats.append(len(beats))
        if len(beats) == 2:
            desk.tell(7)

    stop = Stop(beat=tell_at_the_second)

    consumer.wait_for_work(60, stop=stop)

    slices = len(beats)
    assert 2 <= slices < round(60 / _SLICE_SECONDS)
    assert read_all(consumer).handled_count == 1
    stop.ask()
    consumer.wait_for_work(60, stop=stop)
    assert len(beats) == slices + 1


def test_a_message_carries_its_correlation_into_its_effect(desk: Desk) -> None:
    met: list[object] = []

    def remember(note: Note, received: Received) -> None:
        met.extend([correlation_id(), structlog.contextvars.get_contextvars()["messageId"], received.message_id])

    (message_id,) = desk.tell(0)
    read_all(desk.consumer(remember))

    assert met == [message_id] * 3


def test_what_is_said_of_a_message_that_is_put_aside_carries_its_correlation_too(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(note: Note, received: Received) -> None:
        raise Inconsistent("two of it")

    (message_id,) = desk.tell(0)
    read_all(desk.consumer(refuse))

    lines = [orjson.loads(text) for text in capsys.readouterr().err.splitlines()]
    [line] = [line for line in lines if line["event"] == "message put aside"]
    assert (line["correlationId"], line["messageId"]) == (str(message_id), str(message_id))


def test_what_moves_to_who_joins_and_to_who_stays_is_delivered_again_and_has_one_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.tell(*range(3))
    first, second = desk.consumer(), desk.consumer()
    monkeypatch.setattr(first._reader, "settle", lambda undone: None)  # the group never hears how far it has come
    read_all(first)
    repeated: list[int] = []

    def read_on() -> int:
        result = read_all(second)
        repeated.append(result.repeated_count)
        return result.handled_count

    def both_have_some() -> bool:
        read_all(first)
        read_on()
        return bool(second._reader._at_end) and bool(first._reader._at_end)

    eventually(both_have_some, "the partitions are shared", timeout=20)
    first.close()
    desk.tell(3)
    eventually(read_on, "the heir reads on", timeout=20)

    assert sum(repeated) >= 3
    assert (first.seen, second.seen) == ([0, 1, 2], [3])
    assert ProcessedMessage.objects.count() == 4


def test_processed_messages_are_kept_a_week_longer_than_the_topics(settings: Any) -> None:
    kept_for = datetime.timedelta(hours=settings.ENV.kafka_topic_retention_hours, days=7)
    old, recent = new_id(), new_id()
    inbox.claim(old, consumer="c", as_of=NOON - kept_for - datetime.timedelta(seconds=1))
    inbox.claim(recent, consumer="c", as_of=NOON - kept_for)

    assert inbox.purge(as_of=NOON) == 1
    assert [row.message_id for row in ProcessedMessage.objects.all()] == [recent]
