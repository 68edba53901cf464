"""Requests through the whole of Django, as gunicorn would hand them over: a page of the showcase, a booking."""

import datetime
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import Any
from uuid import UUID
from wsgiref.util import setup_testing_defaults

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection

from api import tokens
from benchmarks import database
from benchmarks.runner import Contender, Report, Row, console, rates, ratio
from core import clock, sql
from core.ids import new_id
from pin_calendar.models import CalendarEvent

_FEW = 1_000
_PAGES = 40
_TURNS_A_RUN = 5
_REQUESTS = 300
_HOUR = datetime.timedelta(hours=1)
_FIRST, _MIDDLE = "first page", "page in the middle"

Ask = Callable[..., Any]


def _client() -> Ask:
    """Sends a request, each from an address of its own, so that no throttle counts them together; the answer's JSON."""
    settings.ROOT_URLCONF = "benchmarks.bare"
    application = get_wsgi_application()
    addresses = (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in itertools.count())

    def ask(method: str, target: str, *, expect: str, body: bytes = b"", token: str = "") -> Any:
        path, _, query = target.partition("?")
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        environ |= {"REMOTE_ADDR": next(addresses), "wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ |= {"CONTENT_TYPE": "application/json"}
        if token:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        setup_testing_defaults(environ)
        answered: list[str] = []

        def start(status: str, *_rest: object) -> Callable[[bytes], object]:
            answered.append(status)
            return content.append

        content: list[bytes] = []
        response: Any = application(environ, start)
        content += response
        response.close()
        assert answered == [expect], (answered, content)
        return json.loads(b"".join(content))

    return ask


def _publish(count: int) -> None:
    """Available slots of a thousand owners, an hour each, one after the other from tomorrow on."""
    sql.execute(
        """
        INSERT INTO availability_slots (id, tenant_id, owner_user_id, start_at, end_at, time_zone,
               min_lead_time_minutes, auto_confirm, status, version, created_at, updated_at)
        SELECT uuidv7(), ('018f0000-0000-7000-8000-' || lpad(to_hex(n %% 10), 12, '0'))::uuid,
               ('018f0000-0000-7000-9000-' || lpad(to_hex(n %% 1000), 12, '0'))::uuid,
               %(as_of)s + interval '1 day' + n / 1000 * interval '1 hour',
               %(as_of)s + interval '1 day' + (n / 1000 + 1) * interval '1 hour',
               'Europe/Moscow', 60, false, 'Available', 1, %(as_of)s, %(as_of)s
        FROM generate_series(0, %(count)s - 1) AS n
        """,
        {"count": count, "as_of": clock.now()},
    )


@contextmanager
def _using(name: str, ask: Ask) -> Iterator[None]:
    """That database with its first pages in memory."""
    home = str(connection.settings_dict["NAME"])
    database.use(name)
    _read_pages(ask, "/api/v1/slots", count=5)
    try:
        yield
    finally:
        database.use(home)


def _read_pages(ask: Ask, target: str, *, count: int = _PAGES) -> int:
    for _ in range(count):
        page = ask("GET", target, expect="200 OK")
        assert len(page["items"]) == 50
    return count


def _page_in_the_middle(ask: Ask, name: str) -> str:
    """Where a reader who has leafed through half of the showcase reads on."""
    with _using(name, ask):
        [(middle,)] = sql.fetch("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY start_at) FROM availability_slots")
        page = ask("GET", f"/api/v1/slots?from={middle:%Y-%m-%dT%H:%M:%SZ}", expect="200 OK")
    return f"/api/v1/slots?cursor={page['nextCursor']}"


def _page(which: str, count: int) -> str:
    return f"{which} of {count:,} slots"


def measure_showcase(*, runs: int, slots: int) -> Report:
    """Pages of 50 from a short and a long showcase."""
    ask, contenders = _client(), []
    for name, count in (("few", _FEW), ("many", slots)):
        console.print(f"  publishing {count:,} slots")
        with database.template(name), database.bare("availability_slots"):
            _publish(count)
        for which, target in ((_FIRST, "/api/v1/slots"), (_MIDDLE, _page_in_the_middle(ask, name))):
            read = partial(_read_pages, ask, target)
            contenders.append(Contender(_page(which, count), read, partial(_using, name, ask)))
    measured = rates(contenders, runs=runs * _TURNS_A_RUN)
    for name in ("few", "many"):
        database.drop(name)
    compared = [(_page(which, slots), _page(which, _FEW)) for which in (_FIRST, _MIDDLE)]
    return Report(
        subject="showcase",
        title="A page of the showcase",
        command=f'make bench ARGS="showcase --runs {runs} --slots {slots}"',
        rows=[Row(many, few, ratio(measured, few, many), 1.5, is_at_most=True) for many, few in compared],
        figures=list(measured.items()),
        unit="pages a second",
        remarks=[
            "The ratio is that of the times. Pages of 50 Available slots, asked for without a token, through the "
            "whole of Django in one process."
        ],
    )


def _tokens(count: int) -> list[str]:
    """Of so many people: no throttle counts their requests together."""
    now = clock.now()
    return [
        tokens.issue(user_id=new_id(), tenant_id=None, roles=(), permissions=(), as_of=now, lifetime=_HOUR)
        for _ in range(count)
    ]


def _book(ask: Ask, bearers: Sequence[str], slot_ids: Sequence[UUID]) -> int:
    for bearer, slot_id in zip(bearers, slot_ids, strict=True):
        ask("POST", f"/api/v1/slots/{slot_id}/book", expect="201 Created", token=bearer)
    return len(slot_ids)


def _insert(ask: Ask, bearers: Sequence[str]) -> int:
    tomorrow = clock.now() + 24 * _HOUR
    wanted = {"title": "Показ", "start_at": clock.iso(tomorrow), "end_at": clock.iso(tomorrow + _HOUR)}
    body = json.dumps(wanted | {"time_zone": "Europe/Moscow"}).encode()
    for bearer in bearers:
        ask("POST", "/bare", expect="201 Created", token=bearer, body=body)
    return len(bearers)


def _check(items: int) -> None:
    assert (items, CalendarEvent.objects.count()) == (_REQUESTS, _REQUESTS)


def measure_booking(*, runs: int) -> Report:
    """One person after the other; every request commits."""
    ask = _client()
    with database.template("free"):
        _publish(_REQUESTS)
        slot_ids = [slot_id for (slot_id,) in sql.fetch("SELECT id FROM availability_slots")]
    bearers = _tokens(_REQUESTS)
    booking, bare = "booking request", "bare DRF view inserting one row"
    prepared = partial(database.copy, "free")
    measured = rates(
        [
            Contender(booking, partial(_book, ask, bearers, slot_ids), prepared, _check),
            Contender(bare, partial(_insert, ask, bearers), prepared, _check),
        ],
        runs=runs,
    )
    database.drop("free")
    return Report(
        subject="booking",
        title="A booking request",
        command=f'make bench ARGS="booking --runs {runs}"',
        rows=[Row(booking, bare, ratio(measured, bare, booking), 4, is_at_most=True)],
        figures=list(measured.items()),
        unit="requests a second",
        remarks=[
            "The ratio is that of the times. A booking writes an appointment, its event, two reminders, the slot, "
            "three audit lines and a message with its queue row, in one transaction. The bare view checks the same "
            "token and a body, inserts one event by the ORM and shows it; it has no throttle, rule, message or log "
            "line."
        ],
    )
