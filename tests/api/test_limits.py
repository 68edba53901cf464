"""Throttles, what stands in the log, and that the production configuration is a secure one."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from tests.api.callers import NOBODY, Caller
from tests.api.web import ROOT
from tests.factories import SlotFactory, an_open_appointment

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def within_one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.throttling.time.monotonic", lambda: 90.0)


def limited(settings: Any, **limits: int) -> None:
    settings.ENV = settings.ENV.model_copy(update=limits)


def test_a_user_asks_so_often_a_minute(settings: Any) -> None:
    limited(settings, api_requests_per_minute_and_user=2)
    caller, another = Caller(), Caller()

    answers = [caller.get("appointments") for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].code == "too_many_requests"
    assert answers[-1].headers["Retry-After"] == "30"
    assert another.get("appointments").status == 200


def test_an_address_asks_so_often_a_minute(settings: Any) -> None:
    limited(settings, api_requests_per_minute_and_address=2)
    assert [NOBODY.get("slots").status for _ in range(3)] == [200, 200, 429]


def test_requests_with_bad_tokens_count_by_address_too(settings: Any) -> None:
    limited(settings, api_requests_per_minute_and_address=2)
    assert [Caller(token="bad").get("appointments").status for _ in range(3)] == [401, 401, 429]


@pytest.mark.parametrize(("proxies", "last"), [(0, 429), (1, 200)])
def test_an_address_is_believed_only_from_a_trusted_proxy(settings: Any, proxies: int, last: int) -> None:
    limited(settings, api_requests_per_minute_and_address=2)
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "NUM_PROXIES": proxies}

    statuses = [
        Client().get("/api/v1/slots", headers={"X-Forwarded-For": f"198.51.100.{n}"}).status_code for n in range(3)
    ]

    assert statuses == [200, 200, last]


def test_zero_is_no_limit(settings: Any) -> None:
    limited(settings, api_requests_per_minute_and_user=0, api_requests_per_minute_and_address=0)
    assert {Caller().get("appointments").status for _ in range(5)} == {200}


def test_the_log_has_ids_and_words_and_no_path_token_or_text(capsys: pytest.CaptureFixture[str]) -> None:
    appointment = an_open_appointment()
    caller = Caller(user_id=appointment.owner_user_id)
    bearer = caller.bearer()
    caller = caller.but(token=bearer)

    answer = caller.post(f"appointments/{appointment.id}/decline", {"reason": "Личная тайна"})
    caller.post(f"appointments/{appointment.id}/decline", {"reason": "Личная тайна\x00"})
    caller.get("feeds/a-secret-of-a-path")

    logged = capsys.readouterr().err
    [line, *_] = [json.loads(line) for line in logged.splitlines()]
    assert (line["event"], line["method"], line["status"]) == ("request answered", "POST", 200)
    assert line["route"] == "api/v1/appointments/<id:appointment_id>/decline"
    assert line["correlationId"] == answer.headers["X-Correlation-Id"]
    assert not [word for word in (bearer, "тайна", "a-secret", str(appointment.id)) if word in logged]


def test_the_correlation_id_of_a_request_is_that_of_its_audit_lines() -> None:
    from audit.models import AuditLine

    slot = SlotFactory.create()

    answer = Caller(user_id=slot.owner_user_id).post(f"slots/{slot.id}/withdraw")

    assert str(AuditLine.objects.get(aggregate_id=slot.id).correlation_id) == answer.headers["X-Correlation-Id"]


def test_check_deploy_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE", raising=False)  # set for the whole session once a browser runs
    production = {
        "PIN_ENVIRONMENT": "production",
        "KAFKA_PROFILE": "kafka",
        "SECRET_KEY": "0123456789" * 6 + "abcdefghijkl",
        "JWT_JWKS_URL": "https://identity.example/keys",
        "ALLOWED_HOSTS": "calendar.example",
        "SHOWCASE_URL": "https://pin.example/showcase",
    }

    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=os.environ | production,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
