"""Idempotency-Key on bookings, and If-Match on every change."""

from typing import Any

import pytest

from api.idempotency import LIFETIME
from api.models import IdempotencyKey
from appointments.models import Appointment
from core import clock
from tests.api.callers import Caller, an_investor, owner
from tests.api.routes import ROUTES
from tests.factories import DAY, NOON, SECOND, SlotFactory

pytestmark = pytest.mark.django_db


def book(slot: Any, caller: Caller, key: str = "k-1", **headers: str) -> Any:
    return caller.post(f"slots/{slot.id}/book", Idempotency_Key=key, **headers)


def test_the_same_key_gives_the_same_answer_and_one_appointment() -> None:
    slot, caller = SlotFactory.create(), an_investor()

    first, again = book(slot, caller), book(slot, caller)

    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert again.headers["ETag"] == first.headers["ETag"]
    assert (first.headers.get("Idempotency-Replayed"), again.headers["Idempotency-Replayed"]) == (None, "true")
    assert Appointment.objects.count() == 1


def test_an_id_in_capitals_names_the_same_record() -> None:
    slot, caller = SlotFactory.create(), an_investor()

    first = caller.post(f"slots/{str(slot.id).upper()}/book", Idempotency_Key="k-1")

    assert first.status == 201
    assert book(slot, caller).body == first.body


def test_the_same_key_for_another_slot_is_refused() -> None:
    slot, other, caller = SlotFactory.create(), SlotFactory.create(), an_investor()
    book(slot, caller)

    answer = book(other, caller)

    assert (answer.status, answer.code) == (422, "idempotency_key_reused")
    assert Appointment.objects.count() == 1


def test_keys_are_each_users_own() -> None:
    slot, other = SlotFactory.create(), SlotFactory.create()

    assert (book(slot, an_investor()).status, book(other, an_investor()).status) == (201, 201)


def test_a_refused_request_leaves_no_key_and_may_be_tried_again() -> None:
    slot, caller = SlotFactory.create(status="Booked"), an_investor()
    assert book(slot, caller).code == "slot_taken"

    slot.status = "Available"
    slot.save()

    assert book(slot, caller).status == 201


def test_a_key_lives_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = SlotFactory.create(start_at=NOON + 9 * DAY)
    other = SlotFactory.create(start_at=NOON + 9 * DAY)
    caller = an_investor()
    book(slot, caller)

    monkeypatch.setattr(clock, "now", lambda: NOON + LIFETIME - SECOND)
    assert book(slot, caller).headers["Idempotency-Replayed"] == "true"
    monkeypatch.setattr(clock, "now", lambda: NOON + LIFETIME)
    assert book(other, caller).status == 201

    assert Appointment.objects.count() == 2


def test_old_keys_are_cleared_away_by_later_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        book(SlotFactory.create(), an_investor())
    monkeypatch.setattr(clock, "now", lambda: NOON + LIFETIME)

    book(SlotFactory.create(start_at=NOON + 9 * DAY), an_investor())

    assert IdempotencyKey.objects.count() == 1


def test_without_a_key_each_request_stands_for_itself() -> None:
    slot, caller = SlotFactory.create(), an_investor()
    path = f"slots/{slot.id}/book"

    assert (caller.post(path).status, caller.post(path).code) == (201, "slot_taken")
    assert not IdempotencyKey.objects.exists()


CHANGES = [name for name, route in ROUTES.items() if route.of_a_record and not name.startswith("GET")]
CHANGES.append("POST slots/<id:slot_id>/book")


STALE = ['"2"', 'W/"1"', '"abc"', "1", '"' + "9" * 400 + '"']


@pytest.mark.parametrize("route", CHANGES)
def test_a_stale_version_is_refused_and_nothing_changes(route: str) -> None:
    sample = ROUTES[route].make()
    method = route.split(maxsplit=1)[0]

    def call(tag: str) -> Any:
        return sample.caller.call(method, sample.path, sample.body, headers={"If-Match": tag})

    assert {(call(tag).status, call(tag).code) for tag in STALE} == {(412, "version_conflict")}
    assert call('"1"').status == ROUTES[route].status


@pytest.mark.parametrize("route", CHANGES)
def test_the_new_version_is_the_etag_of_the_answer(route: str) -> None:
    sample = ROUTES[route].make()

    answer = sample.caller.call(route.split(maxsplit=1)[0], sample.path, sample.body, headers={"If-Match": "*"})

    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'


def test_several_tags_are_refused() -> None:
    slot = SlotFactory.create()

    answer = owner(slot).patch(f"slots/{slot.id}", {}, If_Match='"1", "2"')

    assert (answer.status, answer.pointers) == (422, ["If-Match"])
