"""Rows in other hands: waited for a bounded time, then 409; and races that one of the two wins."""

import time
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from api import problems, waiting
from appointments.models import Appointment
from core import sql
from tests.api.callers import an_investor, client, owner
from tests.appointments.concurrently import held_elsewhere, together
from tests.appointments.timeouts import expire
from tests.factories import SlotFactory, an_open_appointment, an_overdue_appointment
from tests.invariants import violations

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 8


@pytest.fixture
def short_patience(settings: Any) -> None:
    settings.ENV = settings.ENV.model_copy(update={"api_lock_timeout_ms": 100})


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("table", ["appointments", "availability_slots", "calendar_events"])
def test_a_row_in_another_hand_is_busy_and_nothing_changed(table: str) -> None:
    appointment = an_open_appointment()
    path = f"appointments/{appointment.id}/cancel"

    with held_elsewhere(f"SELECT 1 FROM {table} FOR UPDATE"):
        answer = client(appointment).post(path)

    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (409, "busy", "1")
    assert client(appointment).post(path).body["version"] == 2


@pytest.mark.usefixtures("short_patience")
def test_a_slot_in_another_hand_is_busy() -> None:
    slot = SlotFactory.create()

    with held_elsewhere("SELECT 1 FROM availability_slots FOR UPDATE"):
        answer = an_investor().post(f"slots/{slot.id}/book", Idempotency_Key="k")

    assert (answer.status, answer.code) == (409, "busy")
    assert not Appointment.objects.exists()


@pytest.mark.usefixtures("short_patience")
def test_a_feed_in_another_hand_is_busy_before_the_databases_own_limit(settings: Any) -> None:
    caller = an_investor()
    caller.post("feeds")

    with held_elsewhere("SELECT 1 FROM calendar_feeds FOR UPDATE"):
        began = time.monotonic()
        answers = [caller.post("feeds/revoke"), caller.post("feeds")]
        waited_ms = (time.monotonic() - began) * 1_000

    assert [(answer.status, answer.code) for answer in answers] == [(409, "busy")] * 2
    assert waited_ms < settings.ENV.database_lock_timeout_ms
    assert caller.post("feeds/revoke").status == 200


def test_what_one_statement_waited_the_next_ones_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("api.waiting.time.monotonic", lambda: now[0])

    def limit() -> str:
        return str(sql.fetch("SHOW lock_timeout")[0][0])

    def slow(execute: Any, *args: Any) -> Any:
        now[0] += 1.5
        return execute(*args)

    usual = limit()
    with waiting.waiting_at_most(2_000):
        with transaction.atomic():
            first = limit()
            with connection.execute_wrapper(slow):
                sql.fetch("SELECT 1")
            then = limit()
        with transaction.atomic():
            in_the_next_transaction = limit()
            with connection.execute_wrapper(slow):
                sql.fetch("SELECT 1")
            at_the_end = limit()

    assert (first, then, in_the_next_transaction, at_the_end) == ("2s", "500ms", "500ms", "1ms")
    assert limit() == usual


@pytest.mark.parametrize("state", ["55P03", "40P01", "40001", "57014"])
def test_what_the_database_gives_up_is_busy(state: str) -> None:
    error, cause = OperationalError(), Exception()
    cause.sqlstate = state  # type: ignore[attr-defined]
    error.__cause__ = cause

    response = problems.handle(error, {})

    assert (response.status_code, response.data["code"], response["Retry-After"]) == (409, "busy", "1")


def test_a_database_that_is_away_is_a_503() -> None:
    response = problems.handle(OperationalError("connection refused"), {})

    assert (response.status_code, response.data["code"], response["Retry-After"]) == (503, "unavailable", "1")


def test_a_confirm_against_the_timeout_ends_in_one_of_two_ways() -> None:
    for _ in range(ROUNDS):
        appointment = an_overdue_appointment()

        answer, result = together(partial(owner(appointment).post, f"appointments/{appointment.id}/confirm"), expire)

        if answer.status == 200:
            assert (answer.body["status"], result.expired_count) == ("Confirmed", 0)
        else:
            assert (answer.status, answer.body["currentStatus"], result.expired_count) == (409, "Expired", 1)
    assert violations() == []


def test_a_booking_against_the_release_of_its_slot_ends_in_one_of_two_ways() -> None:
    for _ in range(ROUNDS):
        appointment = an_open_appointment()
        cancel = partial(client(appointment).post, f"appointments/{appointment.id}/cancel")
        book = partial(an_investor().post, f"slots/{appointment.slot_id}/book")

        cancelled, booked = together(cancel, book)

        assert cancelled.body["status"] == "Cancelled"
        assert booked.status == 201 or booked.code == "slot_taken"
        appointment.slot.refresh_from_db()
        assert appointment.slot.status == ("Booked" if booked.status == 201 else "Available")
    assert violations() == []


def test_parallel_requests_with_one_key_get_one_answer() -> None:
    slot, caller = SlotFactory.create(), an_investor()
    book = partial(caller.post, f"slots/{slot.id}/book", Idempotency_Key="k")

    answers = together(*[book] * 8)

    assert [answer.status for answer in answers] == [201] * 8
    assert len({answer.body["id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert Appointment.objects.count() == 1
