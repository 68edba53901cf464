"""The demo's mailbox over SMTP, and its pages as a browser gets them."""

import smtplib
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from core.ids import new_id
from dev.inbox import Inbox
from dev.mailbox import Mail, Mailbox


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def inbox(mailbox: Mailbox) -> Iterator[Inbox]:
    with Inbox(mailbox) as inbox:
        yield inbox


def send(mailbox: Mailbox, subject: str, *, to: str = "investor@example.com", **parts: Any) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "PIN <calendar@pin.example>", to, subject
    mail["Message-ID"] = parts.get("message_id", "<1@pin.example>")
    mail.set_content(parts.get("text", "Обычный текст"))
    if "html" in parts:
        mail.add_alternative(parts["html"], subtype="html")
    if "calendar" in parts:
        mail.add_attachment(parts["calendar"], subtype="calendar", filename="calendar.ics")
    mail["Content-Language"] = "ru"
    with smtplib.SMTP("127.0.0.1", mailbox.port, timeout=10) as client:
        client.send_message(mail)


def get(inbox: Inbox, path: str = "") -> str:
    with urlopen(inbox.url + path, timeout=10) as answer:
        page: str = answer.read().decode()
        return page


def test_a_mail_is_read_with_all_its_parts(mailbox: Mailbox) -> None:
    delivery_id = new_id()
    subject = "Запись истекла без вашего решения, и эта строка длиннее, чем помещается в заголовок"
    send(mailbox, subject, message_id=f"<{delivery_id}@pin.example>", html="<p>Вёрстка</p>", calendar="BEGIN:VCALENDAR")

    [mail] = mailbox.mails

    assert (mail.number, mail.to, mail.subject, mail.language) == (1, "investor@example.com", subject, "ru")
    assert (mail.text.strip(), mail.html.strip(), mail.calendar.strip()) == (
        "Обычный текст",
        "<p>Вёрстка</p>",
        "BEGIN:VCALENDAR",
    )
    assert (mail.is_of(delivery_id), mail.is_of(new_id())) == (True, False)


def test_the_newest_mail_is_opened_and_others_on_request(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "First")
    send(mailbox, "Second")

    assert "<h1>Second</h1>" in get(inbox)
    assert "<h1>First</h1>" in get(inbox, "mails/1")
    listed = get(inbox).partition('role="list"')[2]
    assert listed.index("Second") < listed.index("First")


def test_only_the_list_keeps_up_by_itself(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "First")

    assert 'http-equiv="refresh"' in get(inbox)
    assert 'http-equiv="refresh"' not in get(inbox, "mails/1")


def test_the_mails_of_one_person_stand_alone(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "For the agent", to="agent@example.com")
    send(mailbox, "For the investor")

    page = get(inbox, f"?to={quote('agent@example.com')}")

    assert "<h1>For the agent</h1>" in page
    assert "For the investor" not in page
    assert "/mails/1?to=agent%40example.com" in page


def test_each_part_has_a_view(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "Meeting", html="<html><head></head><p>Rich</p></html>", calendar="BEGIN:VCALENDAR")

    rich = "&lt;html&gt;&lt;head&gt;&lt;base target=&quot;_blank&quot;&gt;&lt;/head&gt;&lt;p&gt;Rich&lt;/p&gt;"
    assert rich in get(inbox, "mails/1")
    assert "<pre>Обычный текст" in get(inbox, "mails/1/text")
    assert "<pre>BEGIN:VCALENDAR" in get(inbox, "mails/1/calendar")


def test_a_mail_of_text_alone_is_shown_as_text(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "Plain")

    page = get(inbox, "mails/1")

    assert "<pre>Обычный текст" in page
    assert "<iframe" not in page


def test_what_a_mail_brings_can_do_nothing(mailbox: Mailbox, inbox: Inbox) -> None:
    send(mailbox, "<script>alert(1)</script>", html="<script>alert(2)</script>")

    with urlopen(inbox.url, timeout=10) as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]

    assert "<script" not in page
    assert 'sandbox="allow-popups allow-popups-to-escape-sandbox"' in page
    assert policy.startswith("default-src 'none'")


def test_an_empty_inbox_says_what_it_waits_for(inbox: Inbox) -> None:
    assert "appear here as they are sent" in get(inbox)


@pytest.mark.parametrize("path", ["mails/1", "mails/x", "mails/", "admin", "mails/1/source"])
def test_other_pages_are_not_there(inbox: Inbox, path: str) -> None:
    with pytest.raises(HTTPError, match="404"):
        get(inbox, path)


def test_of_very_many_mails_the_last_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dev.mailbox._KEPT", 2)
    with Mailbox() as mailbox:
        for number in range(3):
            send(mailbox, f"Mail {number}")

    kept: list[Mail] = mailbox.mails
    assert [(mail.number, mail.subject) for mail in kept] == [(2, "Mail 1"), (3, "Mail 2")]
