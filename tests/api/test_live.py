"""The web process as the image runs it: gunicorn, real sockets, many at once, and everything that OpenAPI allows."""

import http.client
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from appointments.models import Appointment
from core import clock
from core.clock import now as real_now
from tests.api.callers import Caller, an_admin, an_investor
from tests.api.web import ROOT, Web, serving
from tests.appointments.concurrently import together
from tests.factories import DAY, SlotFactory
from tests.invariants import violations

pytestmark = pytest.mark.django_db(transaction=True)
CLIENTS = 50


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not here: the web process reads its own clock."""
    monkeypatch.setattr(clock, "now", real_now)


def book(web: Web, slot: Any) -> tuple[int, str]:
    """By a client of its own: the status and, of a problem, the code."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    headers = {"Authorization": f"Bearer {an_investor().bearer()}"}
    connection.request("POST", f"/api/v1/slots/{slot.id}/book", headers=headers)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body.get("code", "")


def test_of_50_parallel_bookings_one_is_made_and_nobody_waits_over_the_limit(tmp_path: Path) -> None:
    """Who waited longer than API_LOCK_TIMEOUT_MS would be told busy, not slot_taken."""
    slot = SlotFactory.create(start_at=real_now() + DAY)
    with serving(tmp_path / "log", "--threads", str(CLIENTS // 2)) as web:
        outcomes = together(*[lambda: book(web, slot)] * CLIENTS)

    assert Counter(outcomes) == {(201, ""): 1, (409, "slot_taken"): CLIENTS - 1}
    assert Appointment.objects.count() == 1
    assert violations() == []


def test_pages_are_secure_and_the_documentation_needs_no_other_host(tmp_path: Path) -> None:
    with serving(tmp_path / "log") as web:
        page = urlopen(f"{web.url}/api/v1/docs")
        html = page.read().decode()
        links = re.findall(r'(?:src|href)="([^"]+)"', html)
        served = [urlopen(f"{web.url}{link}").status for link in links]
        document = json.loads(urlopen(f"{web.url}/api/v1/schema").read())
        health = urlopen(Request(f"{web.url}/api/v1/slots", method="HEAD"))

    assert len(links) >= 3
    assert all(link.startswith("/static/drf_spectacular_sidecar/") for link in links)
    assert set(served) == {200}
    assert document["openapi"] == "3.1.1"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert health.headers["Cache-Control"] == "no-store"


def test_the_document_is_the_committed_one_for_all_who_ask_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "--threads", "8") as web:
        answers = together(*[lambda: urlopen(f"{web.url}/api/v1/schema").read()] * 16)

    assert set(map(json.dumps, map(json.loads, answers))) == {
        json.dumps(json.loads((ROOT / "docs/openapi.json").read_text()))
    }


ROLES: dict[str, Callable[[], Caller]] = {
    "a tenant admin": an_admin,
    "an owner": Caller,
    "an investor": an_investor,
    "nobody": lambda: Caller(token=""),
}


def test_whatever_the_document_allows_or_not_is_answered_as_documented(tmp_path: Path) -> None:
    """Schemathesis with the token of every role at once; the whole of its systematic cases once, as a tenant admin."""
    unlimited = {"API_REQUESTS_PER_MINUTE_AND_USER": "0", "API_REQUESTS_PER_MINUTE_AND_ADDRESS": "0"}
    with serving(tmp_path / "log", **unlimited) as web:
        runs = {
            role: schemathesis(web, caller(), tmp_path, all_cases=caller is an_admin) for role, caller in ROLES.items()
        }
        shown = {role: run.communicate()[0] for role, run in runs.items()}

    assert {role: run.returncode for role, run in runs.items()} == dict.fromkeys(ROLES, 0), "\n".join(shown.values())
    assert violations() == []


def schemathesis(web: Web, caller: Caller, directory: Path, *, all_cases: bool) -> "subprocess.Popen[str]":
    bearer = caller.bearer()
    flags = ["--header", f"Authorization: Bearer {bearer}"] if bearer else []
    return subprocess.Popen(
        [
            *(Path(sys.executable).with_name("st"), "--config-file", ROOT / "tests/api/schemathesis.toml"),
            *("run", f"{web.url}/api/v1/schema", *flags, "--max-examples", "4"),
            *("--phases", "coverage,fuzzing" if all_cases else "fuzzing"),
            # What the schema allows a rule may still refuse: an unknown zone, an end before the start.
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            # One worker: Python 3.11 can fail to parse in two threads at once.
            *("--seed", "1", "--no-shrink", "--workers", "1", "--warnings", "off"),
        ],
        cwd=directory,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
