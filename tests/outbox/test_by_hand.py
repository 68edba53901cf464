"""What people do to the outbox's tables by hand hurts none but the rows that they touch."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from core.ids import new_id
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.relay import RelayJob
from tests.outbox.messages import NOON, a_change
from tests.outbox.relaying import TOPIC, poison, relay_all, tell, versions
from tests.sessions import direct

pytestmark = pytest.mark.django_db(transaction=True)
LATER = NOON + datetime.timedelta(hours=1)


@contextmanager
def somebody_who_holds(rows: str) -> Iterator[None]:
    """A session that has locked these rows, and waits."""
    with psycopg.connect(**direct()) as session:
        session.execute(f"SELECT FROM {rows} FOR UPDATE")
        yield
        session.rollback()


@pytest.mark.parametrize("headers", ["{}", "null", '{"ce_id":"none"}'])
def test_headers_without_a_usable_id_go_out_once(relay: RelayJob, bootstrap: str, headers: str) -> None:
    spoilt, sound = new_id(), new_id()
    tell([a_change(spoilt), a_change(sound)])
    OutboxMessage.objects.filter(key=str(spoilt)).update(headers=headers)

    for _ in range(2):
        relay_all(relay)

    assert (versions(bootstrap, spoilt), versions(bootstrap, sound)) == ([1], [1])
    assert not OutboxReady.objects.exists()


def test_deleted_messages_do_not_hold_up_what_is_behind_them(
    relay: RelayJob, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = new_id()
    tell(a_change() for _ in range(5))
    OutboxMessage.objects.all().delete()
    tell(a_change(event_id, version=version) for version in (1, 2))

    result = relay_all(relay, limit=3)

    assert result.counts() == {"published": 2, "failed": 5, "parked": 0}
    assert versions(bootstrap, event_id) == [1, 2]
    assert not OutboxReady.objects.exists()
    assert capsys.readouterr().err.count("outbox message missing") == 5


def test_a_deleted_message_frees_the_key_that_it_blocked(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in (1, 2))
    poison(event_id)
    relay_all(relay)
    OutboxMessage.objects.order_by("id")[0].delete()
    relay._tenure._retrying.reopen()  # type: ignore[union-attr]

    result = relay_all(relay, as_of=LATER)

    assert result.counts() == {"published": 1, "failed": 1, "parked": 0}
    assert versions(bootstrap, event_id) == [2]
    assert not OutboxBlockedKey.objects.exists()
    assert not OutboxParked.objects.exists()


def test_a_blocked_key_in_somebodys_hand_waits_with_its_messages_alone(relay: RelayJob, bootstrap: str) -> None:
    sick, sound = new_id(), new_id()
    tell([a_change(sick, version=1)])
    poison(sick)
    relay_all(relay)
    tell([a_change(sick, version=2), a_change(sound), a_change(sick, version=3)])
    with somebody_who_holds("outbox_blocked_keys"):
        relay._tenure._retrying.reopen()  # type: ignore[union-attr]

        result = relay_all(relay, as_of=LATER)

        assert result.counts() == {"published": 1, "failed": 0, "parked": 0}
        assert versions(bootstrap, sound) == [1]
        assert OutboxReady.objects.count() == 2

    assert relay_all(relay).counts() == {"published": 0, "failed": 0, "parked": 2}


def test_a_purge_that_meets_rows_in_other_hands_leaves_the_publishing_alone(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    tell([a_change()])
    relay_all(relay)
    relay._purge.start()
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    with somebody_who_holds("outbox_messages"):
        tell([a_change(event_id)])

        result = relay_all(relay, as_of=NOON + datetime.timedelta(days=30))

    assert result.published_count == 1
    assert versions(bootstrap, event_id) == [1]
    assert not relay._purge.is_running
    assert OutboxMessage.objects.count() == 2


def test_the_commands_say_in_a_sentence_that_rows_are_in_other_hands(relay: RelayJob) -> None:
    event_id = new_id()
    tell([a_change(event_id)])
    poison(event_id)
    relay_all(relay)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")

    with somebody_who_holds("outbox_blocked_keys"):
        for arguments in (["retry", "--all"], ["skip", TOPIC, str(event_id)]):
            with pytest.raises(CommandError, match="away or busy") as caught:
                call_command("outbox_parked", *arguments)
            assert caught.value.returncode == 1

    assert OutboxParked.objects.count() == 1
