"""A record's page tells what happened to it, and why, in the order of time."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from appointments import rescheduling
from appointments.matrix import Verb
from appointments.models import Appointment
from audit.models import AuditLine
from core import sql
from core.actors import Actor
from core.ids import new_id
from crm.models import LeadFeedEntry
from notifications.models import Delivery
from ops import wording
from ops.story import Note, Step, Subject, tell
from outbox.models import OutboxBlockedKey, OutboxMessage
from pin_calendar import diary
from pin_calendar.diary import Draft
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from tests.admin.pages import confirm, record_url, text_of
from tests.admin.rows import a_conflict, a_delivery, a_parked_message
from tests.factories import DAY, HOUR, MINUTE, NOON, TENANT, an_overdue_appointment
from tests.ops import lives

pytestmark = pytest.mark.django_db


def story_of(appointment_id: Any, *, as_of: Any = NOON) -> list[Step]:
    appointment = Appointment.objects.select_related("slot", "calendar_event").get(id=appointment_id)
    return tell(Subject(as_of, appointment=appointment, event=appointment.calendar_event))


def told(step: Step) -> list[tuple[str, str]]:
    def lines(notes: Any) -> list[Note]:
        return [line for note in notes for line in (note, *lines(note.notes))]

    return [(note.text, note.badge) for note in lines(step.notes)]


def test_a_lapsed_request_is_told_from_the_booking_to_the_mails() -> None:
    request = lives.lapsed()
    cancelled = OutboxMessage.objects.get(key=str(request.id), topic__contains="appointment-cancelled")
    Delivery.objects.filter(id=a_delivery().id).update(
        subject_id=request.id, fact=cancelled.dedup_key, status="sent", sent_at=NOON + 3 * MINUTE
    )
    LeadFeedEntry.objects.create(
        tenant_id=request.tenant_id,
        client_user_id=request.client_user_id,
        owner_user_id=request.owner_user_id,
        appointment_id=request.id,
        fact=cancelled.dedup_key,
        event="Expired",
        text="запись истекла без решения агента",
        occurred_at=NOON,
        aggregate_version=2,
        created_at=NOON,
    )

    requested, lapsed = story_of(request.id)

    assert (requested.at, requested.title, requested.badge, requested.who) == (
        NOON - DAY - MINUTE,
        "Requested",
        "Pending",
        "the client",
    )
    assert told(requested) == [
        ("slot Available → Booked", ""),
        ("event → Scheduled", ""),
        ("reminder 1 d before planned", ""),
        ("reminder 1 h before planned", ""),
        ("appointment-booked", "Waiting"),
    ]
    assert (lapsed.at, lapsed.title, lapsed.badge, lapsed.who) == (NOON, "Lapsed", "Expired", "system")
    assert lapsed.why == "nobody had decided by 2030-03-14 11:59:00; 1 min later the timeout worker came by"
    assert told(lapsed) == [
        ("slot Booked → Available", ""),
        ("event Scheduled → Cancelled", ""),
        ("reminder 1 d before skipped: event_cancelled", ""),
        ("reminder 1 h before skipped: event_cancelled", ""),
        ("appointment-cancelled", "Waiting"),
        ("email to client, 3 min later", "sent"),
        ("lead feed: запись истекла без решения агента", "Sent"),
        ("event-status-changed", "Waiting"),
    ]


def test_what_is_ahead_stands_at_the_end() -> None:
    request = lives.a_request(lives.a_slot(start_at=NOON + 3 * DAY))

    steps = story_of(request.id)

    assert [(step.title, step.at) for step in steps if step.is_ahead] == [
        ("Lapses, unless it is decided before", NOON + 23 * HOUR),
        ("reminder 1 d before will be sent", NOON + 2 * DAY),
        ("reminder 1 h before will be sent", NOON + 3 * DAY - HOUR),
        ("Starts", NOON + 3 * DAY),
    ]


def test_what_should_have_happened_is_told_as_late() -> None:
    appointment = an_overdue_appointment(start_at=NOON + HOUR - 2 * MINUTE)
    sql.execute("UPDATE event_reminders SET status = 'Pending', skip_reason = NULL")

    late = [step.title for step in story_of(appointment.id) if step.is_late]

    assert late == ["reminder 1 d before is due", "reminder 1 h before is due", "Should have lapsed"]


def test_a_meeting_that_nobody_has_closed_is_told_as_late() -> None:
    request = lives.a_request(lives.a_slot(start_at=NOON - DAY), as_of=NOON - 2 * DAY)
    lives.decide(request, Verb.CONFIRM, as_of=NOON - 2 * DAY)

    assert story_of(request.id)[-1].title == "Over, and nobody has said what came of it"


def test_a_move_tells_of_both_slots() -> None:
    request = lives.a_request(as_of=NOON - 2 * HOUR)
    to = lives.a_slot(request.owner_user_id, start_at=NOON + 2 * DAY)
    rescheduling.reschedule(request.id, to.id, actor=Actor.user(request.client_user_id), as_of=NOON - HOUR)

    moved = next(step for step in story_of(request.id) if step.title == "Moved to another slot")

    assert [text for text, _ in told(moved) if text.startswith("slot")] == [
        "slot Booked → Available",
        "slot Available → Booked",
    ]


def test_another_request_for_the_slot_is_another_story() -> None:
    slot = lives.a_slot()
    first = lives.decide(lives.a_request(slot, as_of=NOON - 3 * HOUR), Verb.DECLINE, as_of=NOON - 2 * HOUR)
    lives.a_request(slot)

    assert [step.at for step in story_of(first.id)] == [NOON - 3 * HOUR, NOON - 2 * HOUR]


def test_a_sent_reminder_is_told_with_its_message() -> None:
    event = lives.reminded().event
    appointment = Appointment.objects.get(calendar_event=event)

    sent = next(step for step in story_of(appointment.id) if step.title == "Reminder sent")

    assert told(sent) == [("reminder 1 d before sent", ""), ("reminder-due", "Waiting")]


def test_a_message_that_is_stuck_tells_why() -> None:
    message = a_parked_message()

    stuck = [note for step in story_of(message.key) for note in step.notes if note.badge == "Blocking"]

    assert [(note.text, note.fault) for note in stuck] == [("appointment-rescheduled", "MSG_SIZE_TOO_LARGE: too large")]
    assert OutboxBlockedKey.objects.count() == 1


def test_what_operators_did_stands_in_the_story_by_name(operator: Client) -> None:
    message = a_parked_message()
    confirm(operator, message, "retry")
    conflict = a_conflict()
    confirm(operator, conflict, "resolve")
    confirm(operator, conflict.appointment, "decline", reason="sold")

    assert ("Retry of a message asked for", "operator olga") in {(s.title, s.who) for s in story_of(message.key)}
    after = story_of(conflict.appointment_id)
    assert "Left behind by a reassignment" in {step.title for step in after}
    assert {("Declined", "operator olga", "«sold»")} <= {(step.title, step.who, step.why) for step in after}


def test_a_delivery_that_was_sent_again_is_told(operator: Client) -> None:
    request, delivery = lives.a_request(), a_delivery()
    Delivery.objects.filter(id=delivery.id).update(subject_id=request.id)

    confirm(operator, delivery, "resend")

    assert ("A delivery is sent again", "operator olga") in {(s.title, s.who) for s in story_of(request.id)}


def test_a_broken_message_does_not_hide_the_story() -> None:
    message = a_parked_message()
    OutboxMessage.objects.filter(id=message.id).update(payload="{")

    assert "Moved to another slot" in {step.title for step in story_of(message.key)}


def test_the_story_costs_the_same_however_long_it_is() -> None:
    short, long = lives.a_request(), lives.a_request()
    owner = Actor.user(long.owner_user_id, tenant_id=long.tenant_id)
    for day in range(2, 8):
        slot = lives.a_slot(long.owner_user_id, start_at=NOON + day * DAY)
        rescheduling.reschedule(long.id, slot.id, actor=owner, as_of=NOON - HOUR + day * MINUTE)
    a_delivery_of_each(long.id)

    def cost(appointment_id: Any) -> int:
        appointment = Appointment.objects.select_related("slot", "calendar_event").get(id=appointment_id)
        with CaptureQueriesContext(connection) as queries:
            tell(Subject(NOON, appointment=appointment, event=appointment.calendar_event))
        return len(queries)

    assert cost(long.id) == cost(short.id) <= 10


def a_delivery_of_each(appointment_id: Any) -> None:
    for message in OutboxMessage.objects.filter(key=str(appointment_id)):
        Delivery.objects.filter(id=a_delivery().id).update(subject_id=appointment_id, fact=message.dedup_key)


def test_deliveries_outlive_their_messages_in_the_story() -> None:
    request = lives.a_request()
    Delivery.objects.filter(id=a_delivery().id).update(subject_id=request.id)
    OutboxMessage.objects.all().delete()

    steps = story_of(request.id)

    assert ("Told: appointment-booked", [("email to client", "parked")]) in [(s.title, told(s)) for s in steps]


def test_every_trace_has_words_of_its_own() -> None:
    lives.all_of_them()
    of_the_crm = [AuditLine(aggregate="Event", verb=verb) for verb in ("follow_crm", "reassign")]

    lines = [*AuditLine.objects.exclude(aggregate="Event"), *of_the_crm]

    assert {wording.title(line) for line in lines if wording.title(line).startswith(line.aggregate)} == set()


def test_the_page_of_an_appointment_tells_it_in_order(viewer: Client) -> None:
    request = lives.lapsed()

    page = text_of(viewer.get(record_url(Appointment.objects.get(id=request.id))))

    assert re.search(r"What happened .* Requested .* Lapsed .* nobody had decided by .* Record Id", page)


def test_the_page_of_an_event_tells_its_story(viewer: Client) -> None:
    owner = Actor.user(new_id(), tenant_id=TENANT)
    assert owner.user_id
    event = diary.create(
        Draft("Показ", NOON + DAY, NOON + DAY + HOUR, "Europe/Moscow"),
        owner_user_id=owner.user_id,
        tenant_id=TENANT,
        actor=owner,
        as_of=NOON - DAY,
    )
    diary.cancel(event.id, actor=owner, as_of=NOON - HOUR)

    page = text_of(viewer.get(record_url(CalendarEvent.objects.get(id=event.id))))

    assert re.search(r"What happened .* Created .* Cancelled .* event-status-changed", page)


def test_the_page_of_a_slot_tells_who_asked_for_it(viewer: Client) -> None:
    slot = lives.a_slot()
    request = lives.decide(lives.a_request(slot, as_of=NOON - 2 * HOUR), Verb.DECLINE)

    page = viewer.get(record_url(AvailabilitySlot.objects.get(id=slot.id)))

    assert re.search(r"Published .* Booked by user .* Given back, the request was declined", text_of(page))
    assert str(request.id) in page.content.decode()
