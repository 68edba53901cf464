"""Bad input is a 4xx that names the field, never a 500, and changes nothing."""

import json
from typing import Any

import pytest

from core import sql
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from tests.api.callers import NOBODY, Caller, an_investor, owner
from tests.api.routes import EVENT, SLOT, WEEKLY
from tests.factories import DAY, HOUR, NOON, EventFactory, SlotFactory, an_open_appointment

pytestmark = pytest.mark.django_db
NAN, INFINITY = float("nan"), float("inf")

BAD_SLOTS: dict[str, tuple[dict[str, Any], str]] = {
    "a naive time": ({"startAt": "2030-03-15T10:00:00"}, "/startAt"),
    "a date alone": ({"startAt": "2030-03-15"}, "/startAt"),
    "a number as a time": ({"startAt": 1_900_000_000}, "/startAt"),
    "a week date": ({"startAt": "2030-W11-5T10:00:00Z"}, "/startAt"),
    "a time that is none": ({"startAt": "2030-02-30T10:00:00Z"}, "/startAt"),
    "an offset out of this world": ({"startAt": "0001-01-01T00:00:00+23:59"}, "/startAt"),
    "a year out of this world": ({"startAt": "9999-12-31T23:00:00Z"}, "/startAt"),
    "null as a time": ({"startAt": None}, "/startAt"),
    "a start that is past": ({"startAt": (NOON - HOUR).isoformat()}, "/startAt"),
    "an end before the start": ({"endAt": NOON.isoformat()}, "/endAt"),
    "an end at the start": ({"endAt": SLOT["startAt"]}, "/endAt"),
    "an unknown zone": ({"timeZone": "Mars/Olympus"}, "/timeZone"),
    "an abbreviation as a zone": ({"timeZone": "MSK"}, "/timeZone"),
    "a zone with a NUL": ({"timeZone": "Europe/Moscow\x00"}, "/timeZone"),
    "a zone out of a directory": ({"timeZone": "../../etc/passwd"}, "/timeZone"),
    "an over-long zone": ({"timeZone": "x" * 65}, "/timeZone"),
    "a zone as a list": ({"timeZone": ["Europe/Moscow"]}, "/timeZone"),
    "NaN": ({"minLeadTimeMinutes": NAN}, "/minLeadTimeMinutes"),
    "infinity": ({"minLeadTimeMinutes": INFINITY}, "/minLeadTimeMinutes"),
    "a fraction": ({"minLeadTimeMinutes": 1.5}, "/minLeadTimeMinutes"),
    "a number as text": ({"minLeadTimeMinutes": "60"}, "/minLeadTimeMinutes"),
    "a flag as a number": ({"minLeadTimeMinutes": True}, "/minLeadTimeMinutes"),
    "a negative lead time": ({"minLeadTimeMinutes": -1}, "/minLeadTimeMinutes"),
    "a lead time of two years": ({"minLeadTimeMinutes": 1_051_200}, "/minLeadTimeMinutes"),
    "a huge number": ({"minLeadTimeMinutes": 10**40}, "/minLeadTimeMinutes"),
    "a word as a flag": ({"autoConfirm": "yes"}, "/autoConfirm"),
    "a number as a flag": ({"autoConfirm": 1}, "/autoConfirm"),
    "an unknown member": ({"status": "Booked"}, "/status"),
    "a member in snake_case": ({"auto_confirm": True}, "/auto_confirm"),
    "an owner that is no UUID": ({"ownerUserId": "42"}, "/ownerUserId"),
    "an owner as a number": ({"ownerUserId": 42}, "/ownerUserId"),
}
BAD_EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "a NUL in the title": ({"title": "a\x00b"}, "/title"),
    "half a surrogate pair": ({"title": "\ud800"}, "/title"),
    "an over-long title": ({"title": "x" * 501}, "/title"),
    "a number as a title": ({"title": 7}, "/title"),
    "NaN as a title": ({"title": NAN}, "/title"),
    "null as a title": ({"title": None}, "/title"),
    "an offset given twice": ({"reminderOffsetsMinutes": [60, 60]}, "/reminderOffsetsMinutes"),
    "nine offsets": ({"reminderOffsetsMinutes": list(range(9))}, "/reminderOffsetsMinutes"),
    "an offset over four weeks": ({"reminderOffsetsMinutes": [1, 40_321]}, "/reminderOffsetsMinutes/1"),
    "a negative offset": ({"reminderOffsetsMinutes": [-1]}, "/reminderOffsetsMinutes/0"),
    "a huge offset": ({"reminderOffsetsMinutes": [10**30]}, "/reminderOffsetsMinutes/0"),
    "an infinite offset": ({"reminderOffsetsMinutes": [INFINITY]}, "/reminderOffsetsMinutes/0"),
    "no list of offsets": ({"reminderOffsetsMinutes": 60}, "/reminderOffsetsMinutes"),
    "null among offsets": ({"reminderOffsetsMinutes": [None]}, "/reminderOffsetsMinutes/0"),
    "an end before the start": ({"endAt": NOON.isoformat()}, "/endAt"),
    "an unknown zone": ({"timeZone": "Moscow"}, "/timeZone"),
    "another origin": ({"origin": "CrmDeadline"}, "/origin"),
}


def refused(answer: Any, pointer: str) -> None:
    assert answer.status == 422, answer
    assert answer.code in ("invalid_request", "invalid_field")
    assert answer.pointers == [pointer]


@pytest.mark.parametrize("case", BAD_SLOTS)
def test_a_bad_slot_is_refused_with_the_field_named(case: str) -> None:
    change, pointer = BAD_SLOTS[case]

    refused(Caller().post("slots", {**SLOT, **change}), pointer)

    assert not AvailabilitySlot.objects.exists()


@pytest.mark.parametrize("case", BAD_SLOTS)
def test_a_bad_edit_of_a_slot_is_refused_with_the_field_named(case: str) -> None:
    slot = SlotFactory.create()
    change, pointer = BAD_SLOTS[case]

    answer = owner(slot).patch(f"slots/{slot.id}", change)

    refused(answer, pointer)
    slot.refresh_from_db()
    assert slot.version == 1


@pytest.mark.parametrize("case", BAD_EVENTS)
def test_a_bad_event_is_refused_with_the_field_named(case: str) -> None:
    change, pointer = BAD_EVENTS[case]

    refused(Caller().post("events", {**EVENT, **change}), pointer)

    assert not CalendarEvent.objects.exists()


@pytest.mark.parametrize("case", BAD_EVENTS)
def test_a_bad_edit_of_an_event_is_refused_with_the_field_named(case: str) -> None:
    event = EventFactory.create()
    change, pointer = BAD_EVENTS[case]

    refused(owner(event).patch(f"events/{event.id}", change), pointer)

    event.refresh_from_db()
    assert event.version == 1


@pytest.mark.parametrize("reason", ["a\x00b", "\udfff", "x" * 501, 7, None, ["because"]])
@pytest.mark.parametrize("verb", ["decline", "cancel"])
def test_a_bad_reason_is_refused(verb: str, reason: Any) -> None:
    appointment = an_open_appointment()

    answer = owner(appointment).post(f"appointments/{appointment.id}/{verb}", {"reason": reason})

    refused(answer, "/reason")
    appointment.refresh_from_db()
    assert appointment.status == "Pending"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"\xff\xfe{}", 400, "malformed"),
        (b"[" * 100_000, 400, "malformed"),
        (b'{"startAt": 1' + b"0" * 5_000 + b"}", 422, "invalid_request"),
        (b"[]", 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b"7", 422, "invalid_request"),
        (b'"text"', 422, "invalid_request"),
        (b'{"timeZone": "UTC", "timeZone": "UTC"}', 422, "invalid_request"),
        (b"", 422, "invalid_request"),
        (json.dumps({**SLOT, "x": "y" * 262_144}).encode(), 413, "body_too_large"),
    ],
    ids=range(11),
)
def test_a_body_that_is_no_object(raw: bytes, status: int, code: str) -> None:
    answer = Caller().call("POST", "slots", raw=raw)

    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        (b'{"timeZone": "UTC", "timeZone": "Europe/Riga"}', "/timeZone"),
        (b'{"windows": [{}, {"fold": 0, "fold": 1}]}', "/windows/1/fold"),
        (b'{"a/b": {"~": 1, "~": 2}}', "/a~1b/~0"),
        (b'{"\\ud800": 1, "\\ud800": 2}', "/?"),
    ],
    ids=range(4),
)
def test_a_member_given_twice_is_named(raw: bytes, pointer: str) -> None:
    assert Caller().call("POST", "slots/bulk", raw=raw).pointers == [pointer]


def test_a_missing_member_is_named() -> None:
    assert Caller().post("slots", {}).pointers == ["/startAt", "/endAt", "/timeZone"]


def test_a_body_in_chunks_is_refused_and_nothing_changes() -> None:
    appointment = an_open_appointment()

    answer = owner(appointment).post(
        f"appointments/{appointment.id}/decline", {"reason": "занято"}, Transfer_Encoding="chunked"
    )

    assert (answer.status, answer.code) == (411, "length_required")
    appointment.refresh_from_db()
    assert appointment.status == "Pending"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_media_type_is_refused(content_type: str) -> None:
    answer = Caller().call("POST", "slots", raw=b"startAt=now", content_type=content_type)
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"from": "2030-03-15T10:00:00"}, "from"),
        ({"from": "2030-03-15T10:00:00 03:00"}, "from"),
        ({"to": "tomorrow"}, "to"),
        ({"ownerId": "me"}, "ownerId"),
        ({"tenantId": "\x00"}, "tenantId"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "9" * 5_000}, "limit"),
        ({"cursor": "abc"}, "cursor"),
        ({"cursor": "é"}, "cursor"),
        ({"cursor": "W10"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"page": "2"}, "page"),
        ({"from": ["2030-03-15T10:00:00Z", "2030-03-16T10:00:00Z"]}, "from"),
    ],
    ids=range(15),
)
def test_a_bad_parameter_is_refused_by_name(query: dict[str, Any], parameter: str) -> None:
    refused(NOBODY.get("slots", **query), parameter)


def test_more_parameters_than_django_counts_are_malformed() -> None:
    answer = NOBODY.get("slots", **{f"p{n}": "" for n in range(1_001)})
    assert (answer.status, answer.code) == (400, "malformed")


@pytest.mark.parametrize(
    ("path", "query", "parameter"),
    [
        ("appointments", {"status": "Open"}, "status"),
        ("appointments", {"status": ["Pending", "pending"]}, "status"),
        ("appointments", {"sort": "createdAt"}, "sort"),
        ("events", {"origin": "manual"}, "origin"),
        ("slots/mine", {"status": "Free"}, "status"),
    ],
)
def test_an_unknown_word_is_refused_by_name(path: str, query: dict[str, Any], parameter: str) -> None:
    refused(Caller().get(path, **query), parameter)


@pytest.mark.parametrize(
    "path", ["slots/7", "slots/", "nothing", "slots/%00", "slots/%0A", "appointments/../slots", "events/" + "x" * 2_000]
)
def test_an_unknown_path_is_a_problem_too(path: str) -> None:
    answer = Caller().get(path)
    assert (answer.status, answer.code) == (404, "not_found")


def test_a_method_that_is_none_is_a_problem_too() -> None:
    answers = [Caller().call("DELETE", f"slots/{new_id()}"), NOBODY.post("docs"), NOBODY.call("OPTIONS", "docs")]
    assert {(answer.status, answer.code) for answer in answers} == {(405, "method_not_allowed")}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"toDate": "2030-03-01"}, "/toDate"),
        ({"toDate": "2032-03-01"}, "/toDate"),
        ({"fromDate": "2030-03-11"}, "/fromDate"),
        ({"fromDate": "18.03.2030"}, "/fromDate"),
        ({"timeZone": "nowhere"}, "/timeZone"),
        ({"windows": []}, "/windows"),
        ({"windows": WEEKLY["windows"] * 51}, "/windows"),
        ({"windows": [{"weekdays": [8], "startTime": "10:00", "endTime": "11:00"}]}, "/windows/0/weekdays/0"),
        ({"windows": [{"weekdays": [1], "startTime": "24:00", "endTime": "11:00"}]}, "/windows/0/startTime"),
        ({"windows": [{"weekdays": [1], "startTime": "11:00", "endTime": "11:00"}]}, "/windows/0/endTime"),
        ({"windows": [{"weekdays": [1], "startTime": "10:00", "endTime": "11:00", "fold": 2}]}, "/windows/0/fold"),
        ({"fromDate": "2030-03-19", "toDate": "2030-03-19"}, "/windows"),
        (
            {
                "toDate": "2031-03-17",
                "windows": [{"weekdays": list(range(1, 8)), "startTime": "10:00", "endTime": "11:00"}] * 2,
            },
            "/windows",
        ),
    ],
    ids=range(13),
)
def test_a_bad_weekly_pattern_is_refused_with_the_field_named(change: dict[str, Any], pointer: str) -> None:
    refused(Caller().post("slots/bulk", {**WEEKLY, **change}), pointer)

    assert not AvailabilitySlot.objects.exists()


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ключ"])
def test_a_bad_idempotency_key_is_refused(key: str) -> None:
    slot = SlotFactory.create()

    answer = an_investor().post(f"slots/{slot.id}/book", Idempotency_Key=key)

    refused(answer, "Idempotency-Key")


@pytest.mark.parametrize(
    ("raw", "pointer"), [(b'{"clientUserId": "42"}', "/clientUserId"), (b"null", ""), (b"[]", "")], ids=range(3)
)
def test_a_body_where_none_belongs_is_refused(raw: bytes, pointer: str) -> None:
    slot = SlotFactory.create()
    refused(an_investor().call("POST", f"slots/{slot.id}/book", raw=raw), pointer)


def test_a_broken_state_is_a_500_without_a_trace() -> None:
    appointment = an_open_appointment(start_at=NOON + 3 * DAY)
    sql.execute("UPDATE availability_slots SET status = 'Available' WHERE id = %s", [appointment.slot_id])

    answer = owner(appointment).post(f"appointments/{appointment.id}/decline")

    assert (answer.status, answer.code) == (500, "internal_error")
    assert answer.body["instance"] == f"urn:uuid:{answer.headers['X-Correlation-Id']}"
    assert "Inconsistent" not in json.dumps(answer.body)
