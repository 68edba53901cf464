"""Instants in and out."""

import datetime
from zoneinfo import ZoneInfo

import pytest

from core import clock

HALF_PAST = datetime.datetime(2030, 10, 27, 0, 30, tzinfo=datetime.UTC)


def test_now_is_aware_and_in_utc():
    assert clock.now().tzinfo is datetime.UTC


@pytest.mark.parametrize(
    "text",
    [
        "2030-10-27T00:30:00Z",
        "2030-10-27T00:30:00.000000Z",
        "2030-10-27T00:30Z",
        "20301027T003000Z",
        "2030-10-27T03:30:00+03:00",  # the hour that Riga has twice: the offset says which
        "2030-10-26T20:30:00-04:00",
    ],
)
def test_an_instant_is_read_into_utc(text):
    read = clock.parse_instant(text)

    assert (read, read.tzinfo) == (HALF_PAST, datetime.UTC)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2030-10-27T00:30:00", "has no time zone"),
        ("2030-10-27", "has no time zone"),
        ("tomorrow", "is not an ISO 8601 instant"),
        ("", "is not an ISO 8601 instant"),
        ("2030-13-01T00:00:00Z", "is not an ISO 8601 instant"),
        ("0001-01-01T00:00:00+03:00", "is not an ISO 8601 instant"),
        ("9999-12-31T23:59:59-03:00", "is not an ISO 8601 instant"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        clock.parse_instant(text)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (HALF_PAST, "2030-10-27T00:30:00.000000Z"),
        (HALF_PAST.replace(microsecond=1), "2030-10-27T00:30:00.000001Z"),
        (datetime.datetime(2030, 10, 27, 3, 30, tzinfo=ZoneInfo("Europe/Riga")), "2030-10-27T00:30:00.000000Z"),
        (
            datetime.datetime(2030, 10, 27, 3, 30, tzinfo=ZoneInfo("Europe/Riga"), fold=1),
            "2030-10-27T01:30:00.000000Z",
        ),
        (datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_an_instant_is_spelled_in_utc_to_the_microsecond(instant, text):
    assert clock.iso(instant) == text


def test_spelling_and_reading_are_inverse():
    assert clock.parse_instant(clock.iso(HALF_PAST)) == HALF_PAST
