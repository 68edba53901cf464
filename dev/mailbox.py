"""The demo's mail server: takes every mail, sends none on."""

import email.policy
import itertools
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from core import clock
from dev.processes import HOST, free_port

_KEPT = 1_000
_START_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Mail:
    """As it came in; a part that it lacks is empty."""

    number: int
    received_at: datetime
    message_id: str
    sender: str
    to: str
    subject: str
    language: str
    text: str
    html: str
    calendar: str

    def is_of(self, delivery_id: UUID) -> bool:
        """Whether it carries that delivery's identity."""
        return self.message_id.partition("@")[0] == str(delivery_id)


class Mailbox:
    """A context manager: SMTP on `port` of the loopback interface, in a thread of this process."""

    def __init__(self) -> None:
        self.port = free_port()
        self._numbers = itertools.count(1)
        self._mails: deque[Mail] = deque(maxlen=_KEPT)
        self._smtp = Controller(self, hostname=HOST, port=self.port, ready_timeout=_START_SECONDS)

    @property
    def mails(self) -> list[Mail]:
        """What has come, in order; of very many the last ones."""
        return list(self._mails)

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        """aiosmtpd's hook for a whole mail."""
        message: Any = email.message_from_bytes(envelope.original_content or b"", policy=email.policy.default)
        self._mails.append(_read(message, number=next(self._numbers)))
        return "250 OK"

    def __enter__(self) -> Self:
        self._smtp.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._smtp.stop()


def _read(message: EmailMessage, *, number: int) -> Mail:
    calendars = [part.get_content() for part in message.walk() if part.get_content_type() == "text/calendar"]
    return Mail(
        number=number,
        received_at=clock.now(),
        message_id=str(message["Message-ID"] or "").strip("<>"),
        sender=str(message["From"] or ""),
        to=str(message["To"] or ""),
        subject=str(message["Subject"] or "").strip(),  # folded before its first word, it begins with a blank
        language=str(message["Content-Language"] or ""),
        text=_body(message, "plain"),
        html=_body(message, "html"),
        calendar=str(calendars[0]) if calendars else "",
    )


def _body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    return str(part.get_content()) if part else ""
