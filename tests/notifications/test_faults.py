"""Real consumers: killed, sharing the work, without broker or mail server. Nothing is lost, nobody is told twice."""

from collections import Counter
from contextlib import ExitStack

import pytest

from core import clock, sql
from dev.apache_kafka import ApacheKafka
from dev.kafka import EmbeddedKafka
from notifications.models import Delivery
from outbox import topics
from tests import gates
from tests.gates import gate
from tests.kafka_writer import Writer
from tests.notifications.mail_server import MailServer
from tests.notifications.people import a_reminder_ahead, the_usual_people
from tests.processes import running, sessions
from tests.waiting import eventually
from workers.models import ProcessedMessage
from workers.topics import ensure

pytestmark = pytest.mark.django_db(transaction=True)

COMMAND = "run_notifications"
STOP_SECONDS = 5  # what the documentation promises


def environment(mails: MailServer, group_prefix: str, **over: str) -> dict[str, str]:
    return {
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_PORT": str(mails.port),
        "EMAIL_TLS": "none",
        "KAFKA_CONSUMER_GROUP_PREFIX": group_prefix,
        "NOTIFICATIONS_INTERVAL_SECONDS": "0.5",
        **over,
    }


def all_told(mails: MailServer, count: int) -> None:
    """Wait until so many reminders have reached their two people, and see that nobody was told twice."""
    eventually(lambda: len(mails.mails) >= 2 * count, "every mail has come", timeout=60)
    eventually(lambda: not Delivery.objects.exclude(status="sent").exists(), "all deliveries are sent", timeout=20)
    told = Counter((mail["To"], mail["Message-ID"]) for mail in mails.mails)
    assert len(told) == Delivery.objects.count() == 2 * count
    assert set(told.values()) == {1}


def test_kill_between_the_effect_and_the_commit_of_its_offset(
    mails: MailServer, group_prefix: str, writer: Writer
) -> None:
    the_usual_people()
    writer.tell(a_reminder_ahead(), a_reminder_ahead(), a_reminder_ahead())
    env = environment(mails, group_prefix, PIN_PROCESS_NAME=gates.NAME, DATABASE_LOCK_TIMEOUT_MS="0")
    with gate("INSERT processed_messages", visit=3) as closed, running(COMMAND, **env) as worker:
        closed.wait_until_reached()
        assert ProcessedMessage.objects.count() == 2
        worker.process.kill()
        worker.end(timeout=20)
        closed.open()
        eventually(lambda: not sessions(gates.NAME), "the server has ended the session")

    with running(COMMAND, **environment(mails, group_prefix)) as worker:
        all_told(mails, 3)
        assert ProcessedMessage.objects.count() == 3


def test_kill_between_a_sending_and_its_note_repeats_it_under_the_same_message_id(
    mails: MailServer, group_prefix: str, writer: Writer
) -> None:
    the_usual_people()
    writer.tell(a_reminder_ahead())
    env = environment(mails, group_prefix, PIN_PROCESS_NAME=gates.NAME, DATABASE_LOCK_TIMEOUT_MS="0")
    with gate("UPDATE deliveries", visit=2) as closed, running(COMMAND, **env) as worker:
        session = closed.wait_until_reached()
        worker.process.kill()
        worker.end(timeout=20)
        sql.fetch("SELECT pg_terminate_backend(%s)", [session])
        eventually(lambda: not sessions(gates.NAME), "the server has ended the session")
    assert len(mails.mails) == 1
    Delivery.objects.filter(status="pending").update(next_attempt_at=clock.now())

    with running(COMMAND, **environment(mails, group_prefix)):
        eventually(lambda: Delivery.objects.filter(status="sent").count() == 2, "both are told", timeout=30)

    told = Counter(mail["Message-ID"] for mail in mails.mails)
    assert sorted(told.values()) == [1, 2]
    assert set(told) == {f"<{delivery.id}@pin.example>" for delivery in Delivery.objects.all()}


def test_three_consumers_share_come_and_go(mails: MailServer, group_prefix: str, writer: Writer) -> None:
    the_usual_people()
    env = environment(mails, group_prefix)
    with ExitStack() as stack:
        first = stack.enter_context(running(COMMAND, **env))
        for _ in range(20):
            writer.tell(a_reminder_ahead(), partition=None)
        second, third = (stack.enter_context(running(COMMAND, **env)) for _ in range(2))
        for worker in (second, third):
            worker.wait_for_event("partitions assigned")
        for _ in range(20):
            writer.tell(a_reminder_ahead(), partition=None)
        all_told(mails, 40)  # what is being sent when its sender dies waits for the end of its lease, minutes away
        first.process.kill()
        for _ in range(20):
            writer.tell(a_reminder_ahead(), partition=None)
        second.process.terminate()
        assert second.end(timeout=STOP_SECONDS) == 0
        all_told(mails, 60)
        assert "delivery recorded" in third.events()
        assert not second.events(level="error") + third.events(level="error")


def test_a_mail_server_that_was_away_and_is_slow_gets_every_mail_once(
    mails: MailServer, group_prefix: str, writer: Writer
) -> None:
    the_usual_people()
    mails.stop()
    with running(COMMAND, **environment(mails, group_prefix)) as worker:
        writer.tell(a_reminder_ahead(), a_reminder_ahead())
        worker.wait_for_event("channel unreachable")
        writer.tell(a_reminder_ahead())
        eventually(lambda: Delivery.objects.count() == 6, "the reading goes on meanwhile", timeout=20)
        mails.delay_seconds = 0.3
        mails.start()
        all_told(mails, 3)


def test_a_broker_that_restarts_is_read_on(
    mails: MailServer, group_prefix: str, writer: Writer, embedded_kafka: EmbeddedKafka | ApacheKafka
) -> None:
    the_usual_people()
    writer.tell(a_reminder_ahead())
    with running(COMMAND, **environment(mails, group_prefix)) as worker:
        all_told(mails, 1)
        embedded_kafka.stop()
        worker.wait_for_event("cycle failed")
        embedded_kafka.start()
        ensure(topics.names())
        Writer(embedded_kafka.bootstrap_servers).tell(a_reminder_ahead())
        all_told(mails, 2)
        worker.process.terminate()
        assert worker.end(timeout=STOP_SECONDS) == 0
