"""Deliveries reach a real SMTP server once each, or are retried, parked, left alone."""

import datetime
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from contracts.calendar import AppointmentConfirmed, ReminderDue
from core import clock
from core.errors import NotFound
from core.ids import new_id
from notifications import channels, deliveries, recording, rendering
from notifications.deliveries import NotResendable
from notifications.models import Delivery, Recipient
from notifications.sending import LEASE, Sender
from tests.keep_going import always
from tests.notifications.mail_server import MailServer
from tests.notifications.people import AGENT, CLIENT, NOW, example, the_usual_people

pytestmark = pytest.mark.django_db

SOON = clock.now() + datetime.timedelta(days=1)
ADDRESSES = ("agent@example.test", "client@example.test")


class Watch:
    """Counts."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.outages = 0

    def settled(self, delivery: Delivery, *, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def unreachable(self, channel: str) -> None:
        self.outages += 1


class Clock:
    """Monotonic time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_sender(watch: Watch | None = None, monotonic: Any = None) -> Sender:
    return Sender(watch=watch or Watch(), monotonic=monotonic or Clock())


def send(sender: Sender | None = None, *, limit: int = 100, keep_going: Any = always) -> Counter[str]:
    return (sender or a_sender()).send_due(limit=limit, keep_going=keep_going)


@pytest.fixture
def reminded(mails: MailServer) -> MailServer:
    """Agent and client are to be reminded of a meeting that is ahead."""
    the_usual_people()
    recording.record(example(ReminderDue, start_at=SOON), message_id=new_id(), as_of=NOW)
    return mails


def make_due() -> None:
    Delivery.objects.update(next_attempt_at=NOW)


def states() -> list[tuple[str, int]]:
    return list(Delivery.objects.order_by("role").values_list("status", "attempts"))


def test_each_person_gets_a_mail_of_their_own(reminded: MailServer) -> None:
    assert send() == {"sent": 2}
    assert send() == {}

    assert sorted(mail["To"] for mail in reminded.mails) == sorted(ADDRESSES)
    for mail in reminded.mails:
        others = set(ADDRESSES) - {mail["To"]}
        assert not any(other in mail.as_string() for other in others)


def test_a_mail_is_complete(mails: MailServer) -> None:
    the_usual_people()
    recording.record(example(AppointmentConfirmed, start_at=SOON), message_id=new_id(), as_of=NOW)
    send()

    (mail,) = mails.to("client@example.test")
    delivery = Delivery.objects.get(recipient_user_id=CLIENT)
    assert mail["Message-ID"] == f"<{delivery.id}@pin.example>"
    assert mail["From"] == "PIN <calendar@pin.example>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Content-Language"] == "en"
    assert "Meeting confirmed" in mail["Subject"]
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert html is not None
    assert "The agent has confirmed the meeting." in plain.get_content()
    assert '<html lang="en">' in html.get_content()
    (calendar,) = mail.iter_attachments()
    assert calendar.get_content_type() == "text/calendar"
    assert calendar.get_param("method") == "REQUEST"
    assert "BEGIN:VEVENT" in calendar.get_content()


def test_a_mail_server_that_is_away_costs_no_attempt_and_is_left_alone_for_a_while(reminded: MailServer) -> None:
    watch, monotonic = Watch(), Clock()
    sender = a_sender(watch, monotonic)
    reminded.stop()

    assert send(sender) == {"unreachable": 1}
    assert send(sender) == {}
    assert states() == [("pending", 0), ("pending", 0)]
    assert (watch.outages, watch.outcomes) == (1, {})

    monotonic.now += 61
    reminded.start()
    assert send(sender) == {"sent": 2}


def test_a_passing_refusal_is_retried_later_and_parked_in_the_end(reminded: MailServer, settings: Any) -> None:
    settings.ENV = settings.ENV.model_copy(update={"notifications_max_attempts": 3})
    reminded.refusals["client@example.test"] = "450 mailbox busy"

    assert send() == {"sent": 1, "retried": 1}
    waiting = Delivery.objects.get(recipient_user_id=CLIENT)
    pause = (waiting.next_attempt_at - waiting.updated_at).total_seconds()
    assert 15 <= pause <= 30
    assert "450 mailbox busy" in waiting.error
    assert send() == {}

    make_due()
    assert send() == {"retried": 1}
    waiting.refresh_from_db()
    assert 30 <= (waiting.next_attempt_at - waiting.updated_at).total_seconds() <= 60
    make_due()
    assert send() == {"parked": 1}
    assert states() == [("parked", 3), ("sent", 1)]


@pytest.mark.parametrize("where", ["client@example.test", "data"])
def test_a_permanent_refusal_parks_at_once(reminded: MailServer, where: str) -> None:
    reminded.refusals[where] = "550 no such mailbox"
    send()
    parked = Delivery.objects.get(recipient_user_id=CLIENT)
    assert (parked.status, parked.attempts, parked.error) == ("parked", 1, "550 no such mailbox")


@pytest.mark.parametrize("answer", ["530 5.7.0 Authentication required", "452 4.3.1 Insufficient system storage"])
def test_a_server_that_takes_no_mail_of_ours_is_away_whatever_the_delivery(reminded: MailServer, answer: str) -> None:
    reminded.refusals["mail"] = answer

    assert send() == {"unreachable": 1}
    assert states() == [("pending", 0), ("pending", 0)]

    reminded.refusals.clear()
    assert send() == {"sent": 2}


def test_a_mail_that_is_too_large_is_refused_alone(reminded: MailServer) -> None:
    reminded.refusals["mail"] = "552 5.3.4 message size exceeds the limit"
    assert send() == {"parked": 2}


@pytest.mark.parametrize("where", ["client@example.test", "data"])
def test_a_server_that_closes_the_connection_with_its_answer_costs_nobody_else_an_attempt(
    reminded: MailServer, where: str
) -> None:
    reminded.refusals[where] = "421 too many mails on this connection"

    outcomes = send()

    assert outcomes == ({"retried": 2} if where == "data" else {"retried": 1, "sent": 1})
    assert set(Delivery.objects.exclude(error="").values_list("error", flat=True)) == {reminded.refusals[where]}


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """The next sender's lease runs out before it sends, and this happens."""
    opened, acts = channels.Email._opened, [act]

    def open_after_the_lease(channel: channels.Email) -> Any:
        if acts:
            make_due()
            acts.pop()()
        return opened(channel)

    monkeypatch.setattr(channels.Email, "_opened", open_after_the_lease)


@pytest.mark.parametrize("answer", ["250 OK", "550 no such mailbox", "450 mailbox busy"])
def test_who_sends_after_their_lease_undoes_nothing_of_who_has_it_now(
    reminded: MailServer, monkeypatch: pytest.MonkeyPatch, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Delivery.objects.filter(recipient_user_id=AGENT).delete()

    def another_sends() -> None:
        assert send() == {"sent": 1}
        reminded.refusals["client@example.test"] = answer

    meanwhile(monkeypatch, another_sends)

    assert send() == {"lost": 1}

    assert states() == [("sent", 2)]
    assert "delivery lease lost" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "noted"), [("450 mailbox busy", "retried"), ("550 no such mailbox", "parked")])
def test_what_a_late_sender_has_sent_is_not_sent_by_the_next_one(
    reminded: MailServer, monkeypatch: pytest.MonkeyPatch, answer: str, noted: str
) -> None:
    Delivery.objects.filter(recipient_user_id=AGENT).delete()

    def another_is_refused() -> None:
        reminded.refusals["client@example.test"] = answer
        assert send() == {noted: 1}
        reminded.refusals.clear()

    meanwhile(monkeypatch, another_is_refused)

    assert send() == {"sent": 1}
    make_due()
    assert send() == {}
    assert [status for status, _ in states()] == ["sent"]


def test_an_address_that_is_none_parks_and_the_other_is_served(reminded: MailServer) -> None:
    Recipient.objects.filter(user_id=CLIENT).update(email="нет адреса")
    assert send() == {"sent": 1, "parked": 1}
    assert Delivery.objects.get(recipient_user_id=CLIENT).error == "ValueError"


def test_a_server_that_does_not_answer_in_time_is_tried_again_with_the_same_message_id(
    reminded: MailServer, settings: Any
) -> None:
    settings.EMAIL_TIMEOUT = 0.2
    reminded.delay_seconds = 1.0
    assert send(limit=1) == {"retried": 1}

    settings.EMAIL_TIMEOUT, reminded.delay_seconds = 10, 0.0
    make_due()
    assert send() == {"sent": 2}
    told = [mail["Message-ID"] for mail in reminded.mails]
    assert set(told) == {f"<{delivery.id}@pin.example>" for delivery in Delivery.objects.all()}


def test_one_that_can_not_be_rendered_does_not_hold_up_the_others(
    reminded: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = rendering.render

    def break_for_the_client(delivery: Delivery, **kwargs: Any) -> Any:
        if delivery.recipient_user_id == CLIENT:
            raise KeyError("client@example.test")
        return render(delivery, **kwargs)

    monkeypatch.setattr(rendering, "render", break_for_the_client)
    assert send() == {"sent": 1, "retried": 1}
    assert Delivery.objects.get(recipient_user_id=CLIENT).error == "KeyError"


def test_one_whose_message_can_not_be_read_is_parked_and_does_not_hold_up_the_others(
    reminded: MailServer, settings: Any
) -> None:
    settings.ENV = settings.ENV.model_copy(update={"notifications_max_attempts": 1})
    Delivery.objects.filter(recipient_user_id=AGENT).update(payload="{}", next_attempt_at=NOW)

    outcomes = send()

    assert outcomes == {"parked": 1, "sent": 1}
    assert [mail["To"] for mail in reminded.mails] == [ADDRESSES[1]]


def test_who_died_while_sending_is_followed_after_the_lease(reminded: MailServer) -> None:
    Delivery.objects.update(next_attempt_at=clock.now() + LEASE)
    assert send() == {}
    make_due()
    assert send() == {"sent": 2}


def test_the_recipient_is_looked_up_when_the_mail_is_sent(reminded: MailServer) -> None:
    Recipient.objects.filter(user_id=AGENT).update(email="new@example.test")
    Recipient.objects.filter(user_id=CLIENT).update(is_active=False)
    assert send() == {"sent": 1, "inactive": 1}
    assert [mail["To"] for mail in reminded.mails] == ["new@example.test"]


def test_a_recipient_who_went_is_recorded(reminded: MailServer) -> None:
    Recipient.objects.filter(user_id=CLIENT).delete()
    Recipient.objects.filter(user_id=AGENT).update(channels=[])
    assert send() == {"no_channel": 2}


def test_a_reminder_that_waited_too_long_is_not_sent_any_more(mails: MailServer) -> None:
    the_usual_people()
    over = example(ReminderDue, start_at=clock.now() - datetime.timedelta(days=2))
    recording.record(over, message_id=new_id(), as_of=over.start_at)
    assert send() == {"stale": 2}
    assert mails.mails == []


def test_a_stop_ends_between_two_mails(reminded: MailServer) -> None:
    assert send(keep_going=lambda: not reminded.mails) == {"sent": 1}
    assert send(limit=1) == {"sent": 1}


def test_no_address_is_ever_logged_or_kept(reminded: MailServer, capsys: pytest.CaptureFixture[str]) -> None:
    reminded.refusals["client@example.test"] = "550 <Client@Example.TEST> is unknown"
    send()
    assert Delivery.objects.get(status="parked").error == "550 <recipient> is unknown"
    reminded.stop()
    Delivery.objects.update(status="pending", sent_at=None)
    make_due()
    send()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    ours = [line for line in lines if line["logger"] != "mail.log"]  # the test's own server
    assert {"delivery sent", "delivery parked", "channel unreachable"} <= {line["event"] for line in ours}
    assert not [line for line in ours if "example.test" in str(line)]


def test_what_was_parked_is_sent_when_asked_for(reminded: MailServer) -> None:
    reminded.refusals["client@example.test"] = "550 no such mailbox"
    send()
    reminded.refusals.clear()

    deliveries.resend(Delivery.objects.get(status="parked").id, by="test", as_of=NOW)

    assert send() == {"sent": 1}
    assert len(reminded.to("client@example.test")) == 1
    assert len(reminded.to("agent@example.test")) == 1


def test_what_was_sent_or_waits_is_not_sent_again(reminded: MailServer) -> None:
    for delivery in Delivery.objects.all():
        with pytest.raises(NotResendable, match="pending"):
            deliveries.resend(delivery.id, by="test", as_of=NOW)
    send()
    for delivery in Delivery.objects.all():
        with pytest.raises(NotResendable, match="sent"):
            deliveries.resend(delivery.id, by="test", as_of=NOW)
    with pytest.raises(NotFound):
        deliveries.resend(new_id(), by="test", as_of=NOW)


def test_who_had_no_channel_is_told_once_there_is_one(mails: MailServer) -> None:
    recording.record(example(ReminderDue, start_at=SOON), message_id=new_id(), as_of=NOW)
    unreached = [delivery.id for delivery in Delivery.objects.all()]
    with pytest.raises(NotResendable, match="can't be reached"):
        deliveries.resend(unreached[0], by="test", as_of=NOW)

    the_usual_people()
    for delivery_id in unreached:
        deliveries.resend(delivery_id, by="test", as_of=NOW)
    assert send() == {"sent": 2}


def test_old_deliveries_are_forgotten_unless_they_wait(reminded: MailServer) -> None:
    send(limit=1)
    limit = datetime.timedelta(days=180)
    assert deliveries.purge(as_of=NOW + limit) == 0
    assert deliveries.purge(as_of=NOW + limit + datetime.timedelta(seconds=1)) == 1
    assert [status for status, _ in states()] == ["pending"]
