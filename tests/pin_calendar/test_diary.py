"""The owner's use cases of events, and what INV-CAL-3 leaves of them for each origin."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db.models import Count

from contracts.calendar import EventReason
from core import sql
from core.actors import Actor
from core.errors import InvalidField, NotFound, VersionConflict
from core.ids import new_id
from pin_calendar import diary, events
from pin_calendar.diary import Draft, EventFinished, FollowsItsSource
from pin_calendar.models import CalendarEvent, EventOrigin, EventStatus
from reminders.models import EventReminder
from tests.appointments.state import audited, everything, reminders_of, told
from tests.factories import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    OTHER_TENANT,
    TENANT,
    EventFactory,
    an_open_appointment,
    owner_of,
)
from tests.reminders.dispatching import dispatch

pytestmark = pytest.mark.django_db

OWNER = new_id()
OWNER_ACTS = Actor.user(OWNER, tenant_id=TENANT)


def a_draft(**fields: Any) -> Draft:
    """Three days ahead of NOON, an hour long, reminded a day and an hour before."""
    start_at = fields.get("start_at", NOON + 3 * DAY)
    ahead = {"title": "Показ", "start_at": start_at, "end_at": start_at + HOUR, "time_zone": "Europe/Riga"}
    return Draft(**{**ahead, **fields})


def an_event(actor: Actor = OWNER_ACTS, **fields: Any) -> CalendarEvent:
    """A Manual event as its owner makes it at NOON."""
    event = diary.create(a_draft(**fields), owner_user_id=OWNER, tenant_id=TENANT, actor=actor, as_of=NOON)
    return CalendarEvent.objects.get(id=event.id)


def edit(event: CalendarEvent, *, as_of: datetime.datetime = NOON + MINUTE, **values: Any) -> None:
    diary.edit(event.id, actor=owner_of(event), as_of=as_of, **values)
    event.refresh_from_db()


def an_event_of(origin: EventOrigin) -> CalendarEvent:
    """Scheduled, with its two reminders."""
    if origin is EventOrigin.APPOINTMENT:
        return an_open_appointment().calendar_event
    event = an_event()
    if origin is EventOrigin.CRM_DEADLINE:
        sql.execute("UPDATE calendar_events SET origin = 'CrmDeadline', source_id = %s, end_at = start_at", [new_id()])
        event.refresh_from_db()
    return event


def pending_ids(event: CalendarEvent) -> set[Any]:
    return set(event.reminders.filter(status="Pending").values_list("id", flat=True))


def test_an_owner_creates_an_event_with_its_reminders_and_no_message():
    event = an_event(title="Показ на Бривибас", reminder_offsets_minutes=(1_440, 60))

    assert (event.origin, event.source_id, event.client_user_id, event.status, event.version) == (
        "Manual",
        None,
        None,
        "Scheduled",
        1,
    )
    assert (event.title, event.time_zone, event.reminder_offsets_minutes) == (
        "Показ на Бривибас",
        "Europe/Riga",
        [1_440, 60],
    )
    assert reminders_of(event) == [(60, "Pending", None), (1_440, "Pending", None)]
    assert told() == []
    assert audited() == {("Event", "create", "", "Scheduled")}


def test_a6_an_event_without_offsets_lives_without_reminders():
    event = an_event(reminder_offsets_minutes=())
    edit(event, start_at=NOON + 5 * DAY, end_at=NOON + 6 * DAY)
    edit(event, title="Другой")
    diary.complete(event.id, actor=owner_of(event), as_of=NOON + 5 * DAY)

    event.refresh_from_db()
    assert (event.status, event.version) == ("Completed", 4)
    assert reminders_of(event) == []


def test_a_draft_with_a_local_time_means_the_instant():
    riga = ZoneInfo("Europe/Riga")
    # 03:30 comes twice on that day; the first is before the second, whatever the clock on the wall says.
    start_at = datetime.datetime(2030, 10, 27, 3, 45, tzinfo=riga)
    event = an_event(start_at=start_at, end_at=datetime.datetime(2030, 10, 27, 3, 30, tzinfo=riga, fold=1))

    assert (event.start_at, event.end_at) == (
        datetime.datetime(2030, 10, 27, 0, 45, tzinfo=datetime.UTC),
        datetime.datetime(2030, 10, 27, 1, 30, tzinfo=datetime.UTC),
    )
    assert set(event.reminders.values_list("due_at", flat=True)) == {event.start_at - DAY, event.start_at - HOUR}


def test_a_legacy_zone_is_stored_under_its_name_of_today():
    assert an_event(time_zone="Asia/Calcutta").time_zone == "Asia/Kolkata"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("reminder_offsets_minutes", {"reminder_offsets_minutes": (60, 60)}),
        ("reminder_offsets_minutes", {"reminder_offsets_minutes": (-1,)}),
        ("reminder_offsets_minutes", {"reminder_offsets_minutes": (40_321,)}),
        ("reminder_offsets_minutes", {"reminder_offsets_minutes": tuple(range(9))}),
        ("time_zone", {"time_zone": "Europe/Nowhere"}),
        ("time_zone", {"time_zone": "localtime"}),
        ("end_at", {"end_at": NOON + 3 * DAY - MINUTE}),
        ("title", {"title": "x" * 501}),
        ("title", {"title": "a\x00b"}),
        ("start_at", {"start_at": datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)}),
        ("end_at", {"end_at": datetime.datetime.max.replace(tzinfo=datetime.UTC)}),
    ],
)
def test_a_bad_value_is_refused_by_its_field_on_creation_and_on_edit(field, fields):
    event = an_event()
    before = everything()

    with pytest.raises(InvalidField) as refused:
        an_event(**fields)
    assert refused.value.field == field
    values = {"end_at": NOON + 4 * DAY, **fields} if "start_at" in fields else fields
    with pytest.raises(InvalidField) as refused:
        edit(event, **values)
    assert refused.value.field == field
    assert everything() == before


@pytest.mark.parametrize("offsets", [(), (0,), (40_320,), tuple(range(8)), [60, 0]])
def test_offsets_within_their_bounds_are_taken(offsets):
    event = an_event(reminder_offsets_minutes=offsets, start_at=NOON + 60 * DAY)

    assert [row[0] for row in reminders_of(event)] == sorted(offsets)


def test_a_title_only_edit_touches_no_reminder_row():
    event = an_event()
    before = list(EventReminder.objects.order_by("id").values())

    edit(event, title="Другой показ")

    assert (event.title, event.version, event.updated_at) == ("Другой показ", 2, NOON + MINUTE)
    assert list(EventReminder.objects.order_by("id").values()) == before
    assert told() == []


@pytest.mark.parametrize(
    "values",
    [
        {"end_at": NOON + 3 * DAY + 2 * HOUR},
        {"time_zone": "Europe/Berlin"},
        {"reminder_offsets_minutes": [60, 1_440]},
        {"start_at": (NOON + 3 * DAY).astimezone(ZoneInfo("Europe/Riga")), "title": "Другой"},
    ],
)
def test_a_change_of_nothing_relevant_touches_no_reminder_row(values):
    event = an_event()
    before = list(EventReminder.objects.order_by("id").values())

    edit(event, **values)

    assert event.version == 2
    assert list(EventReminder.objects.order_by("id").values()) == before


def test_equal_values_change_nothing_at_all():
    event = an_event()
    before = everything()

    edit(event, title="Показ", time_zone="Europe/Riga", reminder_offsets_minutes=(1_440, 60), end_at=event.end_at)

    assert everything() == before


def test_ac4_a_moved_event_earns_new_reminders_even_where_the_same_offset_was_sent():
    event = an_event(start_at=NOON + DAY + MINUTE)
    first_ids = pending_ids(event)
    sql.execute("UPDATE event_reminders SET status = 'Sent', sent_at = %s WHERE offset_minutes = 1440", [NOON])
    [sent] = EventReminder.objects.filter(status="Sent").values()

    edit(event, start_at=NOON + 3 * DAY, end_at=NOON + 3 * DAY + HOUR)

    assert reminders_of(event) == [(60, "Pending", None), (1_440, "Sent", None), (1_440, "Pending", None)]
    assert not pending_ids(event) & first_ids
    assert EventReminder.objects.filter(status="Sent").values().get() == sent
    assert set(event.reminders.filter(status="Pending").values_list("due_at", flat=True)) == {
        NOON + 2 * DAY,
        NOON + 3 * DAY - HOUR,
    }


def test_other_offsets_materialise_the_set_anew():
    event = an_event()

    edit(event, reminder_offsets_minutes=[30])

    assert reminders_of(event) == [(30, "Pending", None)]
    edit(event, reminder_offsets_minutes=[])
    assert reminders_of(event) == []


def test_moved_into_the_past_nothing_is_sent():
    event = an_event()

    edit(event, start_at=NOON - DAY, end_at=NOON - DAY + HOUR)

    assert reminders_of(event) == [(60, "Skipped", "past"), (1_440, "Skipped", "past")]
    assert dispatch().sent_count == 0
    assert told() == []


def test_a_zone_that_has_been_renamed_since_does_not_stand_in_the_way_of_an_edit():
    event = an_event_of(EventOrigin.APPOINTMENT)
    sql.execute("UPDATE calendar_events SET time_zone = 'Europe/Kiev'")

    edit(event, title="Другой", time_zone="Europe/Kiev")

    assert (event.title, event.time_zone) == ("Другой", "Europe/Kiev")


@pytest.mark.parametrize(
    ("verb", "status", "skip_reason"),
    [("complete", "Completed", "event_completed"), ("cancel", "Cancelled", "event_cancelled")],
)
def test_ac5_a_manual_event_ends_its_reminders_are_silenced_and_it_is_told(verb, status, skip_reason):
    event = an_event(start_at=NOON + 30 * MINUTE, reminder_offsets_minutes=[20, 60])

    getattr(diary, verb)(event.id, actor=owner_of(event), as_of=NOON + MINUTE)

    event.refresh_from_db()
    assert (event.status, event.version, event.updated_at) == (status, 2, NOON + MINUTE)
    assert reminders_of(event) == [(20, "Skipped", skip_reason), (60, "Skipped", "past")]
    assert told() == [
        (
            "event-status-changed",
            {
                "contractVersion": 1,
                "tenantId": str(TENANT),
                "occurredAt": "2030-03-14T12:01:00.000000Z",
                "aggregateVersion": 2,
                "eventId": str(event.id),
                "ownerUserId": str(OWNER),
                "origin": "Manual",
                "previousStatus": "Scheduled",
                "status": status,
                "startAt": "2030-03-14T12:30:00.000000Z",
                "timeZone": "Europe/Riga",
                "reason": "OwnerRequest",
            },
        )
    ]
    assert ("Event", verb, "Scheduled", status) in audited()
    sql.execute("UPDATE event_reminders SET due_at = due_at - interval '1 day'")
    assert dispatch().sent_count == 0


def test_the_owners_reason_is_kept_and_not_published():
    event = an_event()

    diary.cancel(event.id, actor=owner_of(event), as_of=NOON, reason="  Клиент Анна заболела ")

    event.refresh_from_db()
    assert event.cancel_reason == "Клиент Анна заболела"
    assert "Анна" not in str(told())


def test_500_events_cancelled_in_one_go_leave_no_reminder():
    made = [
        events.new(
            tenant_id=TENANT,
            owner_user_id=OWNER,
            client_user_id=None,
            origin=EventOrigin.MANUAL,
            source_id=None,
            title="",
            start_at=NOON + 90 * MINUTE,
            end_at=NOON + 2 * HOUR,
            time_zone="UTC",
        )
        for _ in range(500)
    ]
    events.insert(made, as_of=NOON)

    changes = [events.cancel(event, reason=EventReason.OWNER_REQUEST, cancel_reason="") for event in made]
    events.write(changes, as_of=NOON)

    assert sorted(EventReminder.objects.values_list("skip_reason").annotate(Count("id"))) == [
        ("event_cancelled", 500),
        ("past", 500),
    ]
    sql.execute("UPDATE event_reminders SET due_at = due_at - interval '1 day'")
    assert dispatch().sent_count == 0


# The table of INV-CAL-3, written a second time: what the owner of an event may do, by the event's origin.
MAY: dict[EventOrigin, set[str]] = {
    EventOrigin.MANUAL: {"title", "start_at", "end_at", "time_zone", "reminder_offsets_minutes", "complete", "cancel"},
    EventOrigin.APPOINTMENT: {"title", "reminder_offsets_minutes"},
    EventOrigin.CRM_DEADLINE: {"reminder_offsets_minutes"},
}
VALUES: dict[str, Any] = {
    "title": "Другой",
    "start_at": NOON + 3 * DAY - MINUTE,
    "end_at": NOON + 4 * DAY,
    "time_zone": "Europe/Berlin",
    "reminder_offsets_minutes": [15],
}


@pytest.mark.parametrize("verb", [*VALUES, "complete", "cancel"])
@pytest.mark.parametrize("origin", list(EventOrigin))
def test_inv_cal_3_what_an_owner_may_do_depends_on_the_origin(origin, verb):
    event = an_event_of(origin)
    before = everything()

    def act() -> None:
        if verb in VALUES:
            edit(event, **{verb: VALUES[verb]})
        else:
            getattr(diary, verb)(event.id, actor=owner_of(event), as_of=NOON + MINUTE)

    if verb in MAY[origin]:
        act()
        event.refresh_from_db()
        assert event.version == 2
        return
    with pytest.raises(FollowsItsSource, match=origin.value) as refused:
        act()
    assert refused.value.facts == ({"field": verb} if verb in VALUES else {})
    assert everything() == before


@pytest.mark.parametrize("origin", list(EventOrigin))
def test_other_offsets_move_the_reminders_of_every_origin(origin):
    event = an_event_of(origin)

    edit(event, reminder_offsets_minutes=[15])

    assert reminders_of(event) == [(15, "Pending", None)]


@pytest.mark.parametrize("verb", ["edit", "complete", "cancel"])
@pytest.mark.parametrize("status", [EventStatus.COMPLETED, EventStatus.CANCELLED])
def test_a_finished_event_never_changes(status, verb):
    event = EventFactory.create(status=status)
    before = everything()

    with pytest.raises(EventFinished, match=status.value):
        getattr(diary, verb)(
            event.id, actor=owner_of(event), as_of=NOON, **({"title": "Другой"} if verb == "edit" else {})
        )
    assert everything() == before


@pytest.mark.parametrize("verb", ["edit", "complete", "cancel"])
def test_a_stale_version_is_refused_and_the_present_one_taken(verb):
    event = an_event()
    values = {"title": "Другой"} if verb == "edit" else {}
    act = getattr(diary, verb)

    with pytest.raises(VersionConflict, match="has version 1, not 2"):
        act(event.id, actor=OWNER_ACTS, as_of=NOON, seen_version=2, **values)
    assert act(event.id, actor=OWNER_ACTS, as_of=NOON, seen_version=1, **values).version == 2


STRANGERS = {
    "another person": Actor.user(new_id(), tenant_id=TENANT),
    "the owner in another tenant": Actor.user(OWNER, tenant_id=OTHER_TENANT),
    "an admin of another tenant": Actor.tenant_admin(new_id(), tenant_id=OTHER_TENANT),
    "the system": Actor.system(),
}
DEPUTIES = {"a tenant admin": Actor.tenant_admin(new_id(), tenant_id=TENANT), "an operator": Actor.operator()}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_finds_no_event(who):
    event = an_event()
    before = everything()

    for act in (diary.edit, diary.complete, diary.cancel):
        with pytest.raises(NotFound):
            act(event.id, actor=STRANGERS[who], as_of=NOON)
    with pytest.raises(NotFound):
        an_event(actor=STRANGERS[who])
    with pytest.raises(NotFound):
        diary.cancel(new_id(), actor=OWNER_ACTS, as_of=NOON)
    assert everything() == before


@pytest.mark.parametrize("who", DEPUTIES)
def test_a_deputy_acts_as_the_owner_and_stands_in_the_audit_log(who):
    actor = DEPUTIES[who]
    event = an_event(actor=actor)

    diary.cancel(event.id, actor=actor, as_of=NOON)

    assert sql.fetch("SELECT DISTINCT actor_kind, actor_user_id FROM audit_log") == [(actor.kind.value, actor.user_id)]


def test_the_client_of_an_appointment_has_no_say_over_its_event():
    appointment = an_open_appointment()

    with pytest.raises(NotFound):
        diary.edit(appointment.calendar_event_id, actor=Actor.user(appointment.client_user_id), as_of=NOON, title="Мой")
