"""A weekly pattern keeps the wall clock over changes of DST, all or nothing."""

import datetime
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pin_calendar.models import AvailabilitySlot
from tests.api.callers import Caller
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db
SUNDAY = 7


def pattern(first: str, last: str, *windows: dict[str, Any], zone: str = "Europe/Riga", **other: Any) -> dict[str, Any]:
    return {"fromDate": first, "toDate": last, "timeZone": zone, "windows": list(windows), **other}


def window(start: str, end: str, *weekdays: int, **other: Any) -> dict[str, Any]:
    return {"weekdays": list(weekdays), "startTime": start, "endTime": end, **other}


def starts(answer: Any) -> list[str]:
    assert answer.status == 201, answer.body
    return [slot["startAt"] for slot in answer.body["items"]]


def test_ten_oclock_stays_ten_oclock_over_the_change_of_march() -> None:
    answer = Caller().post("slots/bulk", pattern("2030-03-24", "2030-04-07", window("10:00", "11:00", SUNDAY)))

    assert starts(answer) == [
        "2030-03-24T08:00:00.000000Z",
        "2030-03-31T07:00:00.000000Z",
        "2030-04-07T07:00:00.000000Z",
    ]


@pytest.fixture(params=["UTC", "America/New_York", "Pacific/Auckland"])
def process_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("process_zone")
def test_the_zone_of_the_process_changes_nothing() -> None:
    answer = Caller().post("slots/bulk", pattern("2030-10-20", "2030-10-27", window("10:00", "11:00", SUNDAY)))

    assert starts(answer) == ["2030-10-20T07:00:00.000000Z", "2030-10-27T08:00:00.000000Z"]


def test_a_time_that_does_not_exist_is_refused_and_nothing_is_published() -> None:
    answer = Caller().post("slots/bulk", pattern("2030-03-24", "2030-04-07", window("03:30", "04:30", SUNDAY)))

    assert (answer.status, answer.code) == (422, "nonexistent_local_time")
    assert answer.pointers == ["/windows/0/startTime"]
    assert "2030-03-31 03:30 in Europe/Riga" in answer.body["detail"]
    assert not AvailabilitySlot.objects.exists()


def test_a_time_that_comes_twice_must_say_which() -> None:
    wanted = window("03:15", "03:45", SUNDAY)

    answer = Caller().post("slots/bulk", pattern("2030-10-27", "2030-10-27", wanted))

    assert (answer.status, answer.code) == (422, "ambiguous_local_time")
    assert answer.pointers == ["/windows/0/startTime"]
    first = Caller().post("slots/bulk", pattern("2030-10-27", "2030-10-27", {**wanted, "fold": 0}))
    second = Caller().post("slots/bulk", pattern("2030-10-27", "2030-10-27", {**wanted, "fold": 1}))
    assert starts(first) == ["2030-10-27T00:15:00.000000Z"]
    assert starts(second) == ["2030-10-27T01:15:00.000000Z"]


def test_midnight_is_the_end_of_the_day() -> None:
    answer = Caller().post("slots/bulk", pattern("2030-05-06", "2030-05-06", window("23:00", "00:00", 1)))

    [slot] = answer.body["items"]
    assert (slot["startAt"], slot["endAt"]) == ("2030-05-06T20:00:00.000000Z", "2030-05-06T21:00:00.000000Z")


def test_a_legacy_zone_is_stored_by_its_present_name() -> None:
    wanted = pattern("2030-05-06", "2030-05-06", window("10:00", "11:00", 1), zone="Asia/Calcutta")

    [slot] = Caller().post("slots/bulk", wanted).body["items"]

    assert slot["timeZone"] == "Asia/Kolkata"


def test_conflicts_are_listed_and_nothing_is_published() -> None:
    caller = Caller()
    taken = SlotFactory.create(
        owner_user_id=caller.user_id, start_at=datetime.datetime(2030, 5, 13, 7, 30, tzinfo=datetime.UTC)
    )

    answer = caller.post("slots/bulk", pattern("2030-05-06", "2030-05-27", window("10:00", "11:00", 1)))

    assert (answer.status, answer.code) == (409, "slot_overlap")
    assert answer.body["conflicts"] == [
        {"startAt": "2030-05-13T07:30:00.000000Z", "endAt": "2030-05-13T08:30:00.000000Z"}
    ]
    assert list(AvailabilitySlot.objects.all()) == [taken]


def test_windows_that_overlap_each_other_are_refused() -> None:
    windows = [window("10:00", "11:00", 1), window("10:30", "11:30", 1)]

    answer = Caller().post("slots/bulk", pattern("2030-05-06", "2030-05-06", *windows))

    assert (answer.status, answer.code) == (409, "slot_overlap")


def test_the_most_that_one_request_may_make() -> None:
    windows = [window(f"{hour:02}:00", f"{hour + 1:02}:00", *range(1, 8)) for hour in range(9, 19)]

    made = Caller().post("slots/bulk", pattern("2030-05-01", "2030-06-19", *windows))
    too_many = Caller().post("slots/bulk", pattern("2030-05-01", "2030-06-20", *windows))

    assert len(starts(made)) == 500
    assert (too_many.status, too_many.pointers) == (422, ["/windows"])
