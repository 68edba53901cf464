"""What the rules refuse, as problems: the status, the code, and the present state of the record."""

from typing import Any

import pytest

from appointments.models import Appointment
from tests.api.callers import Caller, an_admin, an_investor, client, owner
from tests.appointments.timeouts import expire
from tests.factories import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    EventFactory,
    SlotFactory,
    an_open_appointment,
    an_overdue_appointment,
)

pytestmark = pytest.mark.django_db


def problem(answer: Any) -> tuple[int, str]:
    return answer.status, answer.code


def test_a_taken_slot() -> None:
    slot = SlotFactory.create()
    assert an_investor().post(f"slots/{slot.id}/book").status == 201

    answer = an_investor().post(f"slots/{slot.id}/book")

    assert problem(answer) == (409, "slot_taken")
    assert answer.body["currentStatus"] == "Booked"


def test_a_slot_whose_lead_time_has_passed() -> None:
    slot = SlotFactory.create(start_at=NOON + 59 * MINUTE)
    assert problem(an_investor().post(f"slots/{slot.id}/book")) == (422, "lead_time_passed")


def test_the_sixth_pending_request_to_one_owner() -> None:
    me, someone = an_investor(), SlotFactory.create()
    slots = [SlotFactory.create(owner_user_id=someone.owner_user_id, start_at=NOON + n * DAY) for n in range(2, 8)]

    answers = [me.post(f"slots/{slot.id}/book") for slot in slots]

    assert [answer.status for answer in answers] == [201] * 5 + [409]
    assert answers[-1].code == "too_many_pending"


def test_an_auto_confirm_slot_is_confirmed_at_once() -> None:
    slot = SlotFactory.create(auto_confirm=True)

    booked = an_investor().post(f"slots/{slot.id}/book").body

    assert (booked["status"], booked["pendingExpiresAt"]) == ("Confirmed", None)


@pytest.mark.parametrize("verb", ["confirm", "decline", "cancel", "complete", "no-show", "reschedule"])
@pytest.mark.parametrize("status", ["Declined", "Cancelled", "Expired", "Completed", "NoShow"])
def test_a_stale_page_changes_nothing_of_what_has_ended(verb: str, status: str) -> None:
    by = "Client" if status == "Cancelled" else None
    appointment = an_open_appointment(status=status, cancelled_by=by)
    other = SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=NOON + 9 * DAY)
    body = {"slotId": str(other.id)} if verb == "reschedule" else None

    answer = owner(appointment).post(f"appointments/{appointment.id}/{verb}", body)

    assert problem(answer) == (409, "not_allowed")
    assert answer.body["currentStatus"] == status
    appointment.refresh_from_db()
    assert (appointment.status, appointment.version) == (status, 1)


@pytest.mark.django_db(transaction=True)
def test_a_confirm_after_the_timeout_is_told_expired() -> None:
    appointment = an_overdue_appointment()
    assert expire().expired_count == 1

    answer = owner(appointment).post(f"appointments/{appointment.id}/confirm", If_Match='"2"')

    assert (problem(answer), answer.body["currentStatus"]) == ((409, "not_allowed"), "Expired")


def test_a_client_may_not_decide_even_with_the_permission() -> None:
    appointment = an_open_appointment()
    caller = client(appointment).but(permissions=["calendar.appointments.decide"])

    assert problem(caller.post(f"appointments/{appointment.id}/confirm")) == (403, "not_yours")


@pytest.mark.parametrize(("who", "by"), [(client, "Client"), (owner, "Owner")])
def test_who_cancelled_is_kept(who: Any, by: str) -> None:
    appointment = an_open_appointment()

    body = who(appointment).post(f"appointments/{appointment.id}/cancel", {"reason": "болею"}).body

    assert (body["status"], body["cancelledBy"], body["cancelReason"]) == ("Cancelled", by, "болею")


def test_too_early_and_too_late() -> None:
    ahead = an_open_appointment(status="Confirmed")
    begun = an_open_appointment(status="Confirmed", start_at=NOON)

    assert problem(owner(ahead).post(f"appointments/{ahead.id}/complete")) == (409, "too_early")
    assert problem(owner(begun).post(f"appointments/{begun.id}/cancel")) == (409, "too_late")


@pytest.mark.parametrize(
    ("slot", "status", "code"),
    [
        ({"start_at": NOON + 9 * DAY}, 422, "other_owner"),
        ({"start_at": NOON + 9 * DAY, "status": "Booked", "mine": True}, 409, "slot_taken"),
        ({"start_at": NOON + 30 * MINUTE, "mine": True}, 422, "lead_time_passed"),
    ],
)
def test_a_move_to_a_slot_that_cannot_be(slot: dict[str, Any], status: int, code: str) -> None:
    appointment = an_open_appointment()
    if slot.pop("mine", False):
        slot["owner_user_id"] = appointment.owner_user_id
    other = SlotFactory.create(**slot)

    answer = client(appointment).post(f"appointments/{appointment.id}/reschedule", {"slotId": str(other.id)})

    assert problem(answer) == (status, code)


def test_a_move_to_the_same_slot() -> None:
    appointment = an_open_appointment()
    body = {"slotId": str(appointment.slot_id)}
    assert problem(client(appointment).post(f"appointments/{appointment.id}/reschedule", body)) == (422, "same_slot")


def test_a_clients_move_needs_consent_anew_and_the_old_slot_is_back() -> None:
    appointment = an_open_appointment(status="Confirmed", pending_expires_at=None)
    other = SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=NOON + 9 * DAY)

    moved = client(appointment).post(f"appointments/{appointment.id}/reschedule", {"slotId": str(other.id)}).body

    assert (moved["status"], moved["slotId"], moved["startAt"]) == (
        "Pending",
        str(other.id),
        "2030-03-23T12:00:00.000000Z",
    )
    appointment.slot.refresh_from_db()
    assert appointment.slot.status == "Available"


def test_a_slot_in_use_cannot_be_edited_or_withdrawn() -> None:
    slot = SlotFactory.create(status="Booked")

    for answer in (owner(slot).patch(f"slots/{slot.id}", {}), owner(slot).post(f"slots/{slot.id}/withdraw")):
        assert (problem(answer), answer.body["currentStatus"]) == ((409, "slot_not_available"), "Booked")


@pytest.mark.parametrize("status", ["Available", "Booked"])
def test_an_overlap_lists_the_conflicts(status: str) -> None:
    slot = SlotFactory.create(status=status)
    wanted = {
        "startAt": (slot.start_at + 30 * MINUTE).isoformat(),
        "endAt": (slot.end_at + HOUR).isoformat(),
        "timeZone": "UTC",
    }

    answer = owner(slot).post("slots", wanted)

    assert problem(answer) == (409, "slot_overlap")
    assert answer.body["conflicts"] == [
        {"startAt": "2030-03-15T12:00:00.000000Z", "endAt": "2030-03-15T13:00:00.000000Z"}
    ]


@pytest.mark.parametrize(
    ("origin", "change", "pointer"),
    [
        ("Appointment", {"startAt": (NOON + 2 * HOUR).isoformat()}, "/startAt"),
        ("CrmDeadline", {"title": "Другой"}, "/title"),
    ],
)
def test_an_event_follows_its_source(origin: str, change: dict[str, Any], pointer: str) -> None:
    event = EventFactory.create(origin=origin, source_id=SlotFactory.create().id)

    answer = owner(event).patch(f"events/{event.id}", change)

    assert (problem(answer), answer.pointers) == ((409, "follows_its_source"), [pointer])
    ended = owner(event).post(f"events/{event.id}/cancel")
    assert (problem(ended), "errors" in ended.body) == ((409, "follows_its_source"), False)


def test_an_event_that_has_ended_stays() -> None:
    event = EventFactory.create(status="Completed")

    answer = owner(event).patch(f"events/{event.id}", {"title": "Другой"})

    assert (problem(answer), answer.body["currentStatus"]) == ((409, "event_finished"), "Completed")


def test_a_reassignment_moves_all_or_tells_the_conflicts() -> None:
    appointment = an_open_appointment()
    busy = SlotFactory.create(start_at=appointment.slot.start_at)
    free = Caller()

    def reassign(to: Any) -> Any:
        body = {"fromOwnerId": str(appointment.owner_user_id), "toOwnerId": str(to)}
        return an_admin().post("reassignments", body)

    refused = reassign(busy.owner_user_id)
    assert problem(refused) == (409, "reassignment_conflict")
    assert refused.body["conflicts"] == [str(appointment.id)]
    assert problem(reassign(appointment.owner_user_id)) == (422, "invalid_field")

    moved = reassign(free.user_id).body

    assert moved == {"appointmentIds": [str(appointment.id)], "eventIds": [str(appointment.calendar_event_id)]}
    assert Appointment.objects.get().owner_user_id == free.user_id
