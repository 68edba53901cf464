"""A real SMTP server on loopback that can be away, slow, and choosy."""

import asyncio
import email.policy
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from dev.processes import free_port


class MailServer:
    """What came is in `mails`, in order; what it answers to the sender, a recipient or the data is in `refusals`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mails: list[EmailMessage] = []
        self.refusals: dict[str, str] = {}
        self.delay_seconds = 0.0
        self._controller: Controller | None = None

    def start(self) -> None:
        if self._controller is None:
            self._controller = Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=20)
            self._controller.start()

    def stop(self) -> None:
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()

    def to(self, address: str) -> list[EmailMessage]:
        return [mail for mail in self.mails if mail["To"] == address]

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refusal := self.refusals.get("mail"):
            return refusal
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refusal := self.refusals.get(address):
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if refusal := self.refusals.get("data"):
            return refusal
        await asyncio.sleep(self.delay_seconds)
        mail: Any = email.message_from_bytes(envelope.original_content or b"", policy=email.policy.default)
        assert [mail["To"]] == envelope.rcpt_tos, "a mail goes to one address, which it shows"
        self.mails.append(mail)
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
