"""Time zones by name, and that the machine's own has no say."""

import datetime
import os
import subprocess
import sys
from zoneinfo import ZoneInfo

import orjson
import pytest

from core import zones
from core.errors import InvalidField


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Europe/Moscow", "Europe/Moscow"),
        ("Europe/Amsterdam", "Europe/Amsterdam"),  # merged with Brussels in the data, and still a name of today
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Zulu", "UTC"),
        ("Etc/GMT-3", "Etc/GMT-3"),
        ("Asia/Calcutta", "Asia/Kolkata"),
        ("Europe/Kiev", "Europe/Kyiv"),
        ("US/Pacific", "America/Los_Angeles"),
    ],
)
def test_a_zone_is_stored_under_the_name_of_today(given, kept):
    assert zones.canonical(given) == kept


@pytest.mark.parametrize(
    "name", ["", "europe/moscow", "Moscow", "MSK", "+03:00", "../UTC", "Europe", "localtime", "posixrules", "x" * 9_999]
)
def test_an_unknown_zone_is_refused_with_a_short_sentence(name):
    with pytest.raises(ValueError, match="is not an IANA time zone") as refusal:
        zones.canonical(name)

    assert len(str(refusal.value)) < 140


def test_a_field_with_an_unknown_zone_is_refused_by_its_name():
    with pytest.raises(InvalidField, match="is not an IANA time zone") as refusal:
        zones.checked("Mars/Phobos")

    assert refusal.value.field == "time_zone"
    assert zones.checked("Asia/Calcutta") == "Asia/Kolkata"


def test_every_zone_keeps_its_clock_under_its_canonical_name():
    noons = [datetime.datetime(2030, month, 1, 12, tzinfo=datetime.UTC) for month in (1, 7)]
    for name in zones._known():
        for noon in noons:
            as_given, as_kept = (noon.astimezone(ZoneInfo(zone)) for zone in (name, zones.canonical(name)))
            assert as_given.utcoffset() == as_kept.utcoffset(), name


def test_a_canonical_name_is_canonical():
    for name in zones._known():
        once = zones.canonical(name)
        assert zones.canonical(once) == once


_OUTPUT = """
import datetime, logging, sys
import django; django.setup()
import orjson
from core import clock, logs
from contracts.calendar import ReminderDue
from django.db import connection
from reminders import schedule
from uuid import UUID
instant = datetime.datetime(2030, 10, 27, 0, 30, tzinfo=datetime.UTC)
with connection.cursor() as cursor:
    cursor.execute("SELECT %s::timestamptz, %s::timestamptz::text", [instant, instant])
    read, text = cursor.fetchone()
    cursor.execute("SHOW timezone")
    session = cursor.fetchone()
row = schedule._row(schedule.Timetable(UUID(int=1), read, (1440,)), 1440, as_of=instant)
sys.stdout.buffer.write(orjson.dumps([
    clock.iso(read), text, session, str(clock.now().tzinfo), row["due_at"], instant.astimezone().isoformat(),
]))
logs.get("test").info("seen", at=read)
"""


def _output(zone: str) -> tuple[list[object], str]:
    done = subprocess.run(
        [sys.executable, "-c", _OUTPUT],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "TZ": zone, "PGTZ": zone},
        capture_output=True,
        check=True,
    )
    line = orjson.loads(done.stderr.splitlines()[-1])
    assert line["timestamp"].endswith("Z")
    return orjson.loads(done.stdout), line["at"]


def test_the_zone_of_the_process_changes_no_output():
    values, logged = _output("America/New_York")

    assert (values, logged) == _output("UTC")
    assert values[:2] == ["2030-10-27T00:30:00.000000Z", "2030-10-27 00:30:00+00"]
