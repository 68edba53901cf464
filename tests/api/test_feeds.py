"""Calendar feeds over HTTP: whose events they show, what ends an address, and that it stays a secret."""

import itertools
import logging
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest

from appointments import feeds
from appointments.models import CalendarFeed
from core import tracing
from core.ids import new_id
from pin_calendar.models import CalendarEvent
from tests.api.callers import NOBODY, Answer, Caller, an_admin, client, owner
from tests.api.web import serving
from tests.appointments import state
from tests.appointments.calendar_readers import Entry, by_icalendar
from tests.appointments.concurrently import together
from tests.factories import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    OTHER_TENANT,
    AppointmentFactory,
    EventFactory,
    SlotFactory,
    an_open_appointment,
    owner_of,
)

pytestmark = pytest.mark.django_db


def path_of(caller: Caller) -> str:
    """A new feed's, below /api/v1/."""
    answer = caller.post("feeds")
    assert answer.status == HTTPStatus.CREATED, answer.body
    return str(answer.body["url"]).partition("/api/v1/")[2]


def fetch(path: str, **headers: str) -> Answer:
    return NOBODY.call("GET", path, headers=headers)


def entries(path: str) -> list[Entry]:
    answer = fetch(path)
    assert answer.status == HTTPStatus.OK, answer.body
    return by_icalendar(answer.body.encode())


def uids(path: str) -> list[str]:
    return [entry.uid.removesuffix("@pin-calendar") for entry in entries(path)]


def test_a_feed_is_a_private_calendar_file() -> None:
    event = EventFactory.create()

    made = owner(event).post("feeds")
    answer = fetch(str(made.body["url"]).partition("/api/v1/")[2])

    assert str(made.body["url"]).startswith("http://testserver/api/v1/feeds/")
    assert made.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "text/calendar; charset=utf-8"
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_an_appointment_keeps_its_uid_and_grows_in_sequence_through_moves_and_reassignment() -> None:
    appointment = an_open_appointment()
    agent, investor = owner(appointment), client(appointment)
    other_slot = SlotFactory.create(owner_user_id=agent.user_id, start_at=NOON + 5 * DAY)
    new_agent = Caller()
    path, at = path_of(investor), f"appointments/{appointment.id}"
    seen = entries(path)

    for caller, route, body in (
        (agent, f"{at}/confirm", None),
        (investor, f"{at}/reschedule", {"slotId": str(other_slot.id)}),
        (an_admin(), "reassignments", {"fromOwnerId": str(agent.user_id), "toOwnerId": str(new_agent.user_id)}),
        (new_agent, f"{at}/confirm", None),
        (investor, f"{at}/cancel", None),
    ):
        assert caller.post(route, body).status == HTTPStatus.OK
        seen += entries(path)

    assert {entry.uid for entry in seen} == {f"{appointment.calendar_event_id}@pin-calendar"}
    assert all(before.sequence < after.sequence for before, after in itertools.pairwise(seen))
    assert [(entry.status, entry.start_at) for entry in seen] == [
        ("TENTATIVE", NOON + 3 * DAY),
        ("CONFIRMED", NOON + 3 * DAY),
        ("TENTATIVE", NOON + 5 * DAY),
        ("TENTATIVE", NOON + 5 * DAY),
        ("CONFIRMED", NOON + 5 * DAY),
        ("CANCELLED", NOON + 5 * DAY),
    ]


def test_who_is_reassigned_away_sees_the_meeting_no_more_and_the_new_owner_does() -> None:
    appointment = an_open_appointment()
    agent, new_agent = owner(appointment), Caller()
    former, new = path_of(agent), path_of(new_agent)
    assert (uids(former), uids(new)) == ([str(appointment.calendar_event_id)], [])

    body = {"fromOwnerId": str(agent.user_id), "toOwnerId": str(new_agent.user_id)}
    assert an_admin().post("reassignments", body).status == HTTPStatus.OK

    assert (uids(former), uids(new)) == ([], [str(appointment.calendar_event_id)])


def test_a_feed_shows_whose_client_one_is_and_with_the_permission_what_one_owns() -> None:
    me = Caller()
    owned = EventFactory.create(owner_user_id=me.user_id)
    as_client = an_open_appointment(client_user_id=me.user_id, slot__tenant_id=OTHER_TENANT).calendar_event
    EventFactory.create(owner_user_id=me.user_id, tenant_id=OTHER_TENANT)
    EventFactory.create()

    shown = {
        "an owner": me,
        "without the permission": me.but(permissions=()),
        "of no tenant": me.but(tenant_id=None),
        "a tenant admin": me.but(roles=["tenant_admin"]),
    }

    assert {who: uids(path_of(caller)) for who, caller in shown.items()} == {
        "an owner": [str(owned.id), str(as_client.id)],
        "without the permission": [str(as_client.id)],
        "of no tenant": [str(as_client.id)],
        "a tenant admin": [str(owned.id), str(as_client.id)],  # their own calendar, not the tenant's
    }


def test_a_feed_reaches_from_a_month_ago_to_a_year_ahead() -> None:
    me = Caller()
    starts = [NOON - feeds.BACK - MINUTE, NOON - feeds.BACK, NOON + feeds.AHEAD - MINUTE, NOON + feeds.AHEAD]
    events = [EventFactory.create(owner_user_id=me.user_id, start_at=start) for start in starts]

    assert uids(path_of(me)) == [str(event.id) for event in events[1:3]]


def test_a_feed_has_a_bounded_number_of_events_at_the_same_number_of_queries(django_assert_num_queries: Any) -> None:
    me = Caller()
    CalendarEvent.objects.bulk_create(
        EventFactory.build(owner_user_id=me.user_id, start_at=NOON + n * HOUR) for n in range(feeds.MAX_EVENTS + 1)
    )
    path = path_of(me)

    with django_assert_num_queries(4):
        got = entries(path)

    assert [entry.start_at for entry in got] == [NOON + n * HOUR for n in range(feeds.MAX_EVENTS)]


def test_who_has_the_file_already_is_told_so_until_it_changes() -> None:
    appointment = an_open_appointment()
    path = path_of(client(appointment))
    tag = fetch(path).headers["ETag"]

    for known in (tag, f"W/{tag}", f'"another", {tag}', "*"):
        answer = fetch(path, If_None_Match=known)
        assert (answer.status, answer.body, answer.headers["ETag"]) == (HTTPStatus.NOT_MODIFIED, "", tag)
        assert answer.headers["Cache-Control"] == "private, no-cache"
    assert fetch(path, If_None_Match='"another"').status == HTTPStatus.OK

    owner(appointment).post(f"appointments/{appointment.id}/confirm")
    answer = fetch(path, If_None_Match=tag)
    assert answer.status == HTTPStatus.OK
    assert answer.headers["ETag"] != tag


def without_instance(answer: Answer) -> tuple[int, dict[str, Any], set[str]]:
    return answer.status, {n: v for n, v in answer.body.items() if n != "instance"}, set(answer.headers)


def test_a_token_that_was_replaced_or_revoked_is_as_unknown_as_any_other() -> None:
    me = Caller()
    replaced = path_of(me)
    revoked = path_of(me)
    assert fetch(replaced).status == HTTPStatus.NOT_FOUND
    assert fetch(revoked).status == HTTPStatus.OK

    assert me.post("feeds/revoke").body == {"revokedAt": "2030-03-14T12:00:00.000000Z"}

    odd = ["feeds/x.ics", "feeds/a%00b.ics", "feeds/%D0%B6%FF.ics", f"feeds/{'x' * 5_000}.ics"]
    answers = [without_instance(fetch(path)) for path in (replaced, revoked, *odd)]
    assert answers[0][0] == HTTPStatus.NOT_FOUND
    assert all(answer == answers[0] for answer in answers)
    assert me.post("feeds/revoke").code == "not_found"
    assert fetch(path_of(me)).status == HTTPStatus.OK


def test_revoking_ends_the_persons_own_feed_of_the_tokens_tenant_only() -> None:
    me = Caller()
    others = [me.but(tenant_id=None), me.but(tenant_id=OTHER_TENANT), Caller()]
    mine, theirs = path_of(me), [path_of(caller) for caller in others]

    me.post("feeds/revoke")

    assert fetch(mine).status == HTTPStatus.NOT_FOUND
    assert {fetch(path).status for path in theirs} == {HTTPStatus.OK}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tenant", [None, OTHER_TENANT])
def test_of_addresses_issued_at_once_one_is_good(tenant: Any) -> None:
    me = Caller(tenant_id=tenant)

    paths = together(*[lambda: path_of(me)] * 8)

    assert sorted(fetch(path).status for path in paths) == [HTTPStatus.OK] + [HTTPStatus.NOT_FOUND] * 7
    assert CalendarFeed.objects.count() == 1


def test_reading_changes_nothing() -> None:
    appointment = AppointmentFactory.create()  # overdue: even that is left to the worker
    path = path_of(owner(appointment))
    before = state.everything()

    with CaptureQueriesContext(connection) as captured:
        tag = fetch(path).headers["ETag"]
        NOBODY.call("HEAD", path)
        fetch(path, If_None_Match=tag)

    assert state.everything() == before
    assert {query["sql"].split()[0] for query in captured} == {"SELECT"}


def test_only_the_hash_of_the_token_is_stored() -> None:
    path = path_of(Caller())
    stored = CalendarFeed.objects.values().get()

    token = path.removeprefix("feeds/").removesuffix(".ics")
    assert len(token) >= 43  # 256 bits
    assert token not in str(stored)
    assert not [row for table, row in state.everything() if token in row]
    assert len(stored["token_hash"]) == 64


def test_the_token_is_in_no_log_line_trace_or_metric(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    caplog.set_level(logging.DEBUG)
    me = Caller()
    path = path_of(me)
    token = path.removeprefix("feeds/").removesuffix(".ics")

    tag = fetch(path).headers["ETag"]
    statuses = [
        fetch(path, If_None_Match=tag).status,
        fetch(path, If_Match='"another"').status,
        NOBODY.post(path).status,
        fetch(f"{path}/").status,
        me.post("feeds/revoke").status,
        fetch(path).status,
        fetch(path, Host="elsewhere.example").status,
    ]
    monkeypatch.setattr(feeds, "read", lambda _token, **_: 1 / 0)
    statuses.append(fetch(path).status)

    assert statuses == [304, 200, 405, 404, 200, 404, 400, 500]
    logged = capsys.readouterr().err + caplog.text
    assert logged.count("feeds/<str:token>.ics") >= 5
    assert "ZeroDivisionError" in logged
    names = [span.name for span in spans.get_finished_spans()]
    assert "GET api/v1/feeds/<str:token>.ics" in names
    told = logged + str([span.to_json() for span in spans.get_finished_spans()]) + generate_latest().decode()
    assert [line for line in told.splitlines() if token in line] == []


@pytest.mark.django_db(transaction=True)
def test_the_token_is_not_in_the_web_servers_log_even_with_its_access_log(tmp_path: Any) -> None:
    event = EventFactory.create()
    token = feeds.issue(actor=owner_of(event), shows_owned=True, as_of=NOON)
    unknown = new_id().hex

    with serving(tmp_path / "log", "--access-logfile", "-", "--log-level", "debug") as web:
        with urlopen(f"{web.url}/api/v1/feeds/{token}.ics") as response:
            assert response.headers["Content-Type"] == "text/calendar; charset=utf-8"
        with pytest.raises(HTTPError):
            urlopen(f"{web.url}/api/v1/feeds/{unknown}.ics")

    logged = (tmp_path / "log").read_text()
    assert "GET 200" in logged
    assert "GET 404" in logged
    assert token not in logged
    assert unknown not in logged
