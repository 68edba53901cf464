"""A mail server that keeps of every mail only its identity."""

import re
from collections import Counter

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from dev.processes import HOST, free_port

_MESSAGE_ID = re.compile(rb"^Message-ID:\s*<([^>@]+)@", re.IGNORECASE | re.MULTILINE)


class Letterbox:
    """SMTP on `port` of the loopback interface as long as the block lasts; `received` counts mails by delivery id."""

    def __init__(self) -> None:
        self.port = free_port()
        self.received: Counter[str] = Counter()
        self._smtp: Controller | None = None

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        """aiosmtpd's hook for a whole mail."""
        found = _MESSAGE_ID.search(envelope.original_content or b"")
        self.received[found[1].decode() if found else ""] += 1
        return "250 OK"

    def __enter__(self) -> "Letterbox":
        self._smtp = Controller(self, hostname=HOST, port=self.port, ready_timeout=20)
        self._smtp.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._smtp is not None:
            self._smtp.stop()
