"""An iCalendar file as two foreign programs read it: `icalendar`, and `ical.js` of Thunderbird by node."""

import datetime
import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import icalendar
import pytest

_ICAL_JS = Path(__file__).resolve().parent / "ical_js"
_MINUTE = datetime.timedelta(minutes=1)


@dataclass(frozen=True)
class Entry:
    """One event of the file; of instants only milliseconds are told by every program."""

    uid: str
    sequence: int
    status: str
    title: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    told_at: datetime.datetime
    alarm_minutes: list[int]


Reader = Callable[[bytes], list[Entry]]


def by_icalendar(text: bytes) -> list[Entry]:
    calendar: Any = icalendar.Calendar.from_ical(text)
    assert calendar.errors == [] == [error for event in calendar.events for error in event.errors]
    return [
        Entry(
            uid=str(event["uid"]),
            sequence=int(event["sequence"]),
            status=str(event["status"]),
            title=str(event["summary"]),
            start_at=event.start.astimezone(datetime.UTC),
            end_at=event.end.astimezone(datetime.UTC),
            told_at=event.decoded("dtstamp"),
            alarm_minutes=[-alarm.decoded("trigger") // _MINUTE for alarm in event.walk("VALARM")],
        )
        for event in calendar.events
    ]


def by_ical_js(text: bytes) -> list[Entry]:
    """Skips the test where node, npm or the package are not to be had."""
    _install()
    done = subprocess.run(["node", "read.js"], cwd=_ICAL_JS, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [
        Entry(**entry | {name: datetime.datetime.fromisoformat(entry[name]) for name in entry if name.endswith("_at")})
        for entry in cast(list[dict[str, Any]], json.loads(done.stdout))
    ]


READERS: dict[str, Reader] = {"icalendar": by_icalendar, "ical.js": by_ical_js}


def _install() -> None:
    """Once a checkout: the locked version into an ignored directory. Test processes do it one at a time."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("ical.js needs node and npm")
    lock = _ICAL_JS / "package-lock.json"
    installed = _ICAL_JS / "node_modules" / "made-from-lock.json"
    with lock.open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if installed.exists() and installed.read_bytes() == lock.read_bytes():
            return
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
            cwd=_ICAL_JS,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install ical.js: {done.stderr.strip()[-300:]}")
        shutil.copyfile(lock, installed)
