"""What lists show, in which order, and that pages neither lose nor repeat an item."""

from collections.abc import Iterator
from typing import Any

import pytest

from appointments import feeds
from core.actors import Actor
from core.ids import new_id
from pin_calendar.models import AvailabilitySlot
from reminders import schedule
from tests.api.callers import NOBODY, Caller, an_admin, client, owner
from tests.api.routes import EVENT
from tests.factories import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    OTHER_TENANT,
    TENANT,
    AppointmentFactory,
    EventFactory,
    SlotFactory,
    an_open_appointment,
)

pytestmark = pytest.mark.django_db


def ids(answer: Any) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["id"] for item in answer.body["items"]]


def pages(caller: Caller, path: str, **query: Any) -> Iterator[list[str]]:
    answer = caller.get(path, **query)
    while True:
        yield ids(answer)
        if (cursor := answer.body["nextCursor"]) is None:
            return
        answer = caller.get(path, **query, cursor=cursor)


def test_the_showcase_has_only_what_can_be_booked_now() -> None:
    last_moment = SlotFactory.create(start_at=NOON + HOUR, min_lead_time_minutes=60)
    SlotFactory.create(start_at=NOON + HOUR - MINUTE, min_lead_time_minutes=60)
    at_once = SlotFactory.create(start_at=NOON, min_lead_time_minutes=0)
    for status in ("Booked", "Expired", "Withdrawn"):
        SlotFactory.create(status=status)
    elsewhere = SlotFactory.create(tenant_id=OTHER_TENANT)

    assert ids(NOBODY.get("slots")) == [str(slot.id) for slot in (at_once, last_moment, elsewhere)]


def test_the_showcase_by_owner_tenant_and_time() -> None:
    first = SlotFactory.create()
    second = SlotFactory.create(owner_user_id=first.owner_user_id, start_at=NOON + 2 * DAY)
    foreign = SlotFactory.create(tenant_id=OTHER_TENANT, start_at=NOON + 3 * DAY)

    def found(**query: Any) -> list[str]:
        return ids(NOBODY.get("slots", **query))

    assert found(ownerId=first.owner_user_id) == [str(first.id), str(second.id)]
    assert found(tenantId=OTHER_TENANT) == [str(foreign.id)]
    assert found(**{"from": second.start_at.isoformat(), "to": foreign.start_at.isoformat()}) == [str(second.id)]
    assert found(ownerId=first.owner_user_id, tenantId=OTHER_TENANT) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
def test_pages_go_through_equal_starts_without_loss_or_repetition(limit: int) -> None:
    slots = [SlotFactory.create(start_at=NOON + DAY + n // 4 * HOUR) for n in range(10)]

    got = list(pages(NOBODY, "slots", limit=limit))

    in_order = [str(slot.id) for slot in sorted(slots, key=lambda slot: (slot.start_at, slot.id))]
    assert [id_ for page in got for id_ in page] == in_order
    assert all(len(page) == limit for page in got[:-1])


def test_a_page_has_200_items_at_most_and_50_by_default() -> None:
    AvailabilitySlot.objects.bulk_create(SlotFactory.build() for _ in range(210))

    assert (len(ids(NOBODY.get("slots"))), len(ids(NOBODY.get("slots", limit=200)))) == (50, 200)


def test_own_slots_in_every_state() -> None:
    slots = [
        SlotFactory.create(owner_user_id=(me := Caller()).user_id, start_at=NOON + n * DAY, status=status)
        for n, status in enumerate(("Withdrawn", "Expired"))
    ]
    slots = [SlotFactory.create(owner_user_id=me.user_id, start_at=NOON - DAY, status="Available"), slots[-1]]

    assert ids(me.get("slots/mine")) == [str(slot.id) for slot in slots]
    assert ids(me.get("slots/mine", status="Expired")) == [str(slots[1].id)]
    assert ids(an_admin().get("slots/mine", ownerId=me.user_id)) == [str(slot.id) for slot in slots]


def test_appointments_of_a_person_who_is_owner_and_client() -> None:
    me = Caller()
    as_owner = an_open_appointment(slot__owner_user_id=me.user_id, start_at=NOON + 2 * DAY)
    as_client = an_open_appointment(client_user_id=me.user_id, slot__tenant_id=OTHER_TENANT, start_at=NOON + DAY)
    both = an_open_appointment(slot__owner_user_id=me.user_id, client_user_id=me.user_id, start_at=NOON + 3 * DAY)
    an_open_appointment()

    in_order = [str(appointment.id) for appointment in (as_client, as_owner, both)]

    assert ids(me.get("appointments")) == in_order
    assert list(pages(me, "appointments", limit=1)) == [[id_] for id_ in in_order]
    window = {"from": (NOON + 2 * DAY).isoformat(), "to": (NOON + 3 * DAY).isoformat()}
    assert ids(me.get("appointments", **window)) == [str(as_owner.id)]


def test_a_tenant_admin_sees_the_tenants_appointments() -> None:
    ours, foreign = an_open_appointment(), an_open_appointment(slot__tenant_id=OTHER_TENANT)

    assert ids(an_admin().get("appointments")) == [str(ours.id)]
    assert ids(an_admin(OTHER_TENANT).get("appointments")) == [str(foreign.id)]


def test_appointments_by_status_expired_is_not_cancelled() -> None:
    me = Caller()
    made = {
        status: AppointmentFactory.create(
            slot__owner_user_id=me.user_id,
            start_at=NOON + n * DAY,
            status=status,
            cancelled_by="Owner" if status == "Cancelled" else None,
        )
        for n, status in enumerate(("Pending", "Confirmed", "Cancelled", "Expired"), start=1)
    }

    assert ids(me.get("appointments", status="Expired")) == [str(made["Expired"].id)]
    assert ids(me.get("appointments", status=["Pending", "Confirmed"])) == [
        str(made["Pending"].id),
        str(made["Confirmed"].id),
    ]


def test_pending_requests_by_deadline() -> None:
    me = Caller()
    later = an_open_appointment(
        slot__owner_user_id=me.user_id, start_at=NOON + 2 * DAY, pending_expires_at=NOON + 2 * HOUR
    )
    sooner = an_open_appointment(slot__owner_user_id=me.user_id, pending_expires_at=NOON + HOUR)
    an_open_appointment(slot__owner_user_id=me.user_id, status="Confirmed", start_at=NOON + 5 * DAY)

    got = me.get("appointments", sort="pendingExpiresAt")

    assert ids(got) == [str(sooner.id), str(later.id)]
    assert [item["pendingExpiresAt"] for item in got.body["items"]] == [
        "2030-03-14T13:00:00.000000Z",
        "2030-03-14T14:00:00.000000Z",
    ]
    assert list(pages(me, "appointments", sort="pendingExpiresAt", limit=1)) == [[str(sooner.id)], [str(later.id)]]


def test_events_of_owner_and_client() -> None:
    appointment = an_open_appointment()
    event = str(appointment.calendar_event_id)
    owners = owner(appointment)
    manual = EventFactory.create(owner_user_id=owners.user_id, start_at=NOON + 9 * DAY)

    assert ids(owners.get("events")) == [event, str(manual.id)]
    assert ids(owners.get("events", origin="Manual")) == [str(manual.id)]
    assert ids(owners.get("events", status="Completed")) == []
    assert ids(owners.but(permissions=()).get("events")) == []
    assert ids(client(appointment).get("events")) == [event]
    assert client(appointment).get(f"events/{event}").body["clientUserId"] == str(appointment.client_user_id)
    assert client(appointment).but(permissions=["calendar.events.manage"]).patch(f"events/{event}", {}).status == 404


def test_an_event_shows_its_reminders() -> None:
    event = EventFactory.create(start_at=NOON + 2 * HOUR)
    schedule.materialise([schedule.Timetable(event.id, event.start_at, (1_440, 60))], as_of=NOON)

    body = owner(event).get(f"events/{event.id}").body

    shown = [{name: value for name, value in reminder.items() if name != "id"} for reminder in body["reminders"]]
    assert shown == [
        {
            "offsetMinutes": 1_440,
            "dueAt": "2030-03-13T14:00:00.000000Z",
            "status": "Skipped",
            "sentAt": None,
            "skipReason": "past",
        },
        {
            "offsetMinutes": 60,
            "dueAt": "2030-03-14T13:00:00.000000Z",
            "status": "Pending",
            "sentAt": None,
            "skipReason": None,
        },
    ]


def test_an_appointment_shows_its_columns_and_its_slots_times() -> None:
    appointment = an_open_appointment()

    body = client(appointment).get(f"appointments/{appointment.id}").body

    assert body == {
        "id": str(appointment.id),
        "tenantId": str(TENANT),
        "slotId": str(appointment.slot_id),
        "calendarEventId": str(appointment.calendar_event_id),
        "ownerUserId": str(appointment.owner_user_id),
        "clientUserId": str(appointment.client_user_id),
        "status": "Pending",
        "pendingExpiresAt": "2030-03-15T11:00:00.000000Z",
        "cancelledBy": None,
        "cancelReason": "",
        "startAt": "2030-03-17T12:00:00.000000Z",
        "endAt": "2030-03-17T13:00:00.000000Z",
        "timeZone": "Europe/Moscow",
        "version": 1,
        "createdAt": "2030-03-14T11:00:00.000000Z",
        "updatedAt": "2030-03-14T11:00:00.000000Z",
    }


@pytest.mark.parametrize(("ahead", "warned"), [(30 * MINUTE, True), (3 * HOUR, False), (2 * DAY, False)])
def test_an_event_inside_all_its_offsets_is_warned_about(ahead: Any, warned: bool) -> None:
    start = NOON + ahead
    body = {**EVENT, "startAt": start.isoformat(), "endAt": (start + HOUR).isoformat()}

    made = Caller().post("events", body).body

    assert [warning["code"] for warning in made["warnings"]] == (["no_reminder_will_be_sent"] if warned else [])


def test_a_zone_that_nobody_knows_hurts_no_page() -> None:
    """It can only have been written past the service; the record is shown as it is, and so are the others."""
    me = Caller()
    slots, appointments = [], []
    for n, zone in enumerate(["Mars/Olympus", "Europe/Riga"], start=1):
        fields = {"slot__owner_user_id": me.user_id, "slot__time_zone": zone, "calendar_event__time_zone": zone}
        appointments.append(an_open_appointment(**fields, start_at=NOON + n * DAY))
        slots.append(SlotFactory.create(owner_user_id=me.user_id, start_at=NOON + (n + 5) * DAY, time_zone=zone))
    token = feeds.issue(actor=Actor.user(me.user_id, tenant_id=TENANT), shows_owned=True, as_of=NOON)

    free = [str(slot.id) for slot in slots]
    assert ids(NOBODY.get("slots", ownerId=me.user_id)) == free
    assert ids(me.get("slots/mine")) == [*[str(appointment.slot_id) for appointment in appointments], *free]
    assert ids(me.get("appointments")) == [str(appointment.id) for appointment in appointments]
    events = [str(appointment.calendar_event_id) for appointment in appointments]
    assert ids(me.get("events")) == events
    assert [me.get(f"events/{event}").body["timeZone"] for event in events] == ["Mars/Olympus", "Europe/Riga"]
    assert [event in NOBODY.get(f"feeds/{token}.ics").body for event in events] == [True, True]
    cancelled = me.post(f"appointments/{appointments[0].id}/cancel").body
    assert cancelled["status"] == "Cancelled"


def test_an_event_that_wants_no_reminders_is_not_warned_about() -> None:
    body = {**EVENT, "startAt": NOON.isoformat(), "reminderOffsetsMinutes": []}
    assert Caller().post("events", body).body["warnings"] == []


def test_a_booking_half_an_hour_ahead_is_warned_about() -> None:
    slot = SlotFactory.create(start_at=NOON + 30 * MINUTE, min_lead_time_minutes=0)

    booked = Caller(user_id=new_id()).post(f"slots/{slot.id}/book").body

    assert [warning["code"] for warning in booked["warnings"]] == ["no_reminder_will_be_sent"]
