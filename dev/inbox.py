"""The pages of the demo's mailbox: people, their mails, and one mail as HTML, plain text or calendar entry."""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlencode, urlsplit

from django.template import Context, Engine
from django.template.base import Template

from dev.mailbox import Mail, Mailbox
from dev.processes import HOST

_ROUTE = re.compile(r"/(?:mails/(?P<number>\d{1,9})(?:/(?P<view>html|text|calendar))?)?")
# A mail can't bring anything in from elsewhere; its links open beside the inbox.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_LINKS_OPEN_BESIDE = '<head><base target="_blank">'
_POLL_SECONDS = 0.1


class Inbox:
    """A context manager: the pages at `url` on loopback, in threads of this process. Needs Django to be set up."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._server = ThreadingHTTPServer((HOST, 0), _handler(mailbox))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), name="inbox")
        self.url = f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(mailbox: Mailbox) -> type[BaseHTTPRequestHandler]:
    template = Engine(dirs=[str(Path(__file__).parent)]).get_template("inbox.html")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = _page(self.path, mailbox.mails, template)
            body = (page or "There is no such page.").encode()
            self.send_response(HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are no news."""

    return Handler


def _page(url: str, mails: Sequence[Mail], template: Template) -> str | None:
    """None when there is no such page."""
    parts = urlsplit(url)
    route = _ROUTE.fullmatch(parts.path)
    if route is None:
        return None
    person = parse_qs(parts.query).get("to", [""])[0]
    listed = [mail for mail in reversed(mails) if person in ("", mail.to)]
    if route["number"] is None:
        chosen = next(iter(listed), None)
    else:
        chosen = next((mail for mail in mails if mail.number == int(route["number"])), None)
        if chosen is None:
            return None
    views = _views(chosen) if chosen else []
    context = {
        "mails": listed,
        "people": sorted(Counter(mail.to for mail in mails).items()),
        "count": len(mails),
        "person": person,
        "query": f"?{urlencode({'to': person})}" if person else "",
        "mail": chosen,
        "html": chosen.html.replace("<head>", _LINKS_OPEN_BESIDE, 1) if chosen else "",
        "views": views,
        "view": route["view"] or next(iter(views), ""),
        "keeps_up": route["number"] is None,
    }
    return template.render(Context(context))


def _views(mail: Mail) -> list[str]:
    parts = {"html": mail.html, "text": mail.text, "calendar": mail.calendar}
    return [name for name, content in parts.items() if content]
