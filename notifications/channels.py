"""Ways to reach a person.

Another one is a class here, a member of `models.Channel` with its migration, and a line in NOTIFICATION_CHANNELS.
"""

import re
import smtplib
import sys
from dataclasses import dataclass
from email.mime.text import MIMEText
from email.utils import parseaddr
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.utils.module_loading import import_string

from notifications.models import Recipient

_FIRST_PERMANENT = 500
_CLOSING = 421
_TOO_LARGE = 552


class Unreachable(Exception):
    """The channel itself is away: no delivery is to blame."""


class Rejected(Exception):
    """The channel did not take this delivery; `is_permanent` when it never will."""

    def __init__(self, error: str, *, is_permanent: bool) -> None:
        super().__init__(error)
        self.is_permanent = is_permanent


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """An iCalendar file; `method` is REQUEST or CANCEL."""

    method: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A rendered text, the same for every channel; each takes of it what it can show."""

    delivery_id: UUID
    subject: str
    text: str
    html: str
    calendar: Calendar | None


class Channel(Protocol):
    """One at work, for some deliveries one after the other; made without arguments."""

    @staticmethod
    def reaches(recipient: Recipient) -> bool:
        """Whether the recipient has an address there."""

    def send(self, letter: Letter, *, to: Recipient) -> None:
        """Raises Unreachable or Rejected. A repeat carries the same identity, by which the channel may know it."""

    def close(self) -> None:
        """After the last one."""


class Email:
    """Each letter to one address, through Django's mail settings."""

    def __init__(self) -> None:
        self._connection: BaseEmailBackend | None = None

    @staticmethod
    def reaches(recipient: Recipient) -> bool:
        return bool(recipient.email)

    def send(self, letter: Letter, *, to: Recipient) -> None:
        connection = self._opened()
        try:
            _mail(letter, to=to, connection=connection).send()
        except smtplib.SMTPRecipientsRefused as error:
            [(code, said)] = error.recipients.values()
            raise self._rejection(code, said, to=to) from error
        except smtplib.SMTPSenderRefused as error:
            if error.smtp_code == _TOO_LARGE:
                raise self._rejection(error.smtp_code, error.smtp_error, to=to) from error
            self.close()  # it will not take mail from us at all, whatever the delivery
            raise Unreachable(f"{type(error).__name__} {error.smtp_code}") from error
        except smtplib.SMTPDataError as error:
            raise self._rejection(error.smtp_code, error.smtp_error, to=to) from error
        except (smtplib.SMTPException, OSError) as error:  # its fate is unknown
            self.close()
            raise Rejected(type(error).__name__, is_permanent=False) from error
        except ValueError as error:  # an address that is none, which the text quotes
            raise Rejected(type(error).__name__, is_permanent=True) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _rejection(self, code: int, said: bytes | str, *, to: Recipient) -> Rejected:
        """What the server said, without the address: the error is kept longer than the recipient may be."""
        if code == _CLOSING:
            self.close()  # as the server has: the next delivery needs a connection that is open
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        text = re.sub(re.escape(to.email), "recipient", text, flags=re.IGNORECASE)
        return Rejected(f"{code} {text}", is_permanent=code >= _FIRST_PERMANENT)

    def _opened(self) -> BaseEmailBackend:
        if self._connection is None:
            # Mails that are shown instead of sent go beside the log: stdout is for the command's result.
            connection = get_connection(stream=sys.stderr)
            try:
                connection.open()
            except (smtplib.SMTPException, OSError) as error:
                raise Unreachable(type(error).__name__) from error
            self._connection = connection
        return self._connection


def configured() -> dict[str, type[Channel]]:
    """The channels that this installation has, by name."""
    return {name: import_string(path) for name, path in settings.NOTIFICATION_CHANNELS.items()}


def of(recipient: Recipient) -> list[str]:
    """Those configured channels that the recipient wants and can be reached by."""
    return [name for name, channel in configured().items() if name in recipient.channels and channel.reaches(recipient)]


def _mail(letter: Letter, *, to: Recipient, connection: BaseEmailBackend) -> EmailMultiAlternatives:
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    mail = EmailMultiAlternatives(
        subject=letter.subject,
        body=letter.text,
        to=[to.email],
        connection=connection,
        headers={
            "Message-ID": f"<{letter.delivery_id}@{domain}>",
            "Auto-Submitted": "auto-generated",
            "Content-Language": to.locale,
        },
    )
    mail.attach_alternative(letter.html, "text/html")
    if letter.calendar is not None:
        invitation = MIMEText(letter.calendar.text, "calendar", "utf-8")
        invitation.set_param("method", letter.calendar.method)
        invitation.add_header("Content-Disposition", "attachment", filename="calendar.ics")
        mail.attach(invitation)
    return mail
