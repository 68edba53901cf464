"""What a run of the dispatcher does with due reminders."""

import datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models.functions import TruncMinute
from django.test.utils import CaptureQueriesContext

from core import sql
from core.clock import iso
from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady
from pin_calendar.models import EventOrigin, EventStatus
from reminders.dispatch import DispatchResult
from reminders.models import EventReminder, ReminderStatus
from tests import bulk
from tests.appointments.state import everything, told
from tests.factories import DAY, HOUR, MICROSECOND, MINUTE, NOON, SECOND, EventFactory, an_open_appointment
from tests.reminders.dispatching import (
    STALE_AFTER,
    a_due_reminder,
    a_job,
    a_reminder_of,
    dispatch,
    due_entries_read,
    scan_tables,
    statuses,
    walk_indexes,
)

pytestmark = pytest.mark.django_db

MAX_ID = 2**128 - 1


def test_nothing_due_changes_nothing():
    a_due_reminder(due_at=NOON + SECOND)
    before = everything()

    assert dispatch() == DispatchResult()
    assert everything() == before


def test_ac3_a_due_row_is_sent_and_told_once_and_the_next_pass_is_a_no_op():
    reminder = a_due_reminder()

    assert dispatch() == DispatchResult(sent_count=1)

    reminder.refresh_from_db()
    assert (reminder.status, reminder.sent_at, reminder.updated_at) == ("Sent", NOON, NOON)
    assert [topic for topic, _ in told()] == ["reminder-due"]
    assert OutboxReady.objects.count() == 1
    after = everything()
    assert dispatch() == DispatchResult()
    assert everything() == after


def test_a_row_due_at_this_very_instant_is_not_yet_due():
    a_due_reminder(due_at=NOON)
    a_due_reminder(due_at=NOON - MICROSECOND)

    assert dispatch().sent_count == 1
    assert statuses() == [("Sent", None), ("Pending", None)]


def test_a_reminder_59_seconds_late_in_normal_polling_is_sent():
    a_due_reminder(due_at=NOON - 59 * SECOND, offset=0, end_at=NOON - 59 * SECOND)

    assert dispatch() == DispatchResult(sent_count=1)


@pytest.mark.parametrize(
    ("over_for", "outcome"),
    [
        (-HOUR, ("Sent", None)),
        (STALE_AFTER - MICROSECOND, ("Sent", None)),
        (STALE_AFTER, ("Sent", None)),
        (STALE_AFTER + MICROSECOND, ("Skipped", "event_over")),
        (2 * DAY, ("Skipped", "event_over")),
    ],
)
@pytest.mark.parametrize("origin", list(EventOrigin))
def test_a_row_is_skipped_exactly_when_its_event_has_been_over_for_longer_than_the_limit(origin, over_for, outcome):
    length = datetime.timedelta() if origin is EventOrigin.CRM_DEADLINE else HOUR
    start_at = NOON - over_for - length
    a_due_reminder(
        due_at=start_at - DAY,
        offset=1_440,
        end_at=start_at + length,
        origin=origin,
        source_id=None if origin is EventOrigin.MANUAL else new_id(),
    )

    result = dispatch()

    assert statuses() == [outcome]
    assert (result.sent_count, result.skipped_count) == ((1, 0) if outcome[0] == "Sent" else (0, 1))
    assert len(told()) == result.sent_count


def test_an_event_in_progress_is_still_told():
    a_due_reminder(due_at=NOON - 90 * MINUTE, offset=60)

    assert dispatch() == DispatchResult(sent_count=1)


def test_after_two_days_away_yesterdays_meetings_are_skipped_and_tomorrows_sent_once():
    for days_late in (2, 1):
        a_due_reminder(due_at=NOON - days_late * DAY)
    tomorrow = a_due_reminder(due_at=NOON - DAY + MINUTE, offset=2_880)

    assert dispatch() == DispatchResult(sent_count=1, skipped_count=2)

    [(_, message)] = told()
    assert message["reminderId"] == str(tomorrow.id)
    assert dispatch() == DispatchResult()


@pytest.mark.parametrize("limit", [1, 4, 500])
def test_the_oldest_goes_first_whatever_plan_postgresql_finds(limit: int):
    younger_first = [a_due_reminder(due_at=NOON - minutes * MINUTE, offset=600) for minutes in range(1, 8)]
    scan_tables()

    dispatch(limit=limit)

    assert [payload["reminderId"] for _, payload in told()] == [str(reminder.id) for reminder in younger_first[::-1]]


def test_a5_a_backlog_goes_out_in_one_run_batch_after_batch_oldest_first():
    due = [a_due_reminder(due_at=NOON - n * MINUTE, offset=1_440) for n in range(1, 24)]

    assert dispatch(limit=5) == DispatchResult(sent_count=23)

    assert [message["reminderId"] for _, message in told()] == [str(reminder.id) for reminder in reversed(due)]


def test_what_is_due_at_one_instant_goes_on_where_the_last_batch_ended():
    """Whatever the order of the events' ids, and however far ahead they start: a pass, and one that finds nothing."""
    for n in range(12):
        a_due_reminder(due_at=NOON - (12 - n) // 6 * MINUTE - SECOND, id=UUID(int=MAX_ID - n))

    with CaptureQueriesContext(connection) as asked:
        assert dispatch(limit=3) == DispatchResult(sent_count=12)

    assert sum("SKIP LOCKED" in query["sql"] for query in asked) == 4 + 1 + 1


def test_batches_do_not_read_again_what_an_open_transaction_keeps_of_those_before():
    sql.execute("TRUNCATE calendar_events CASCADE")  # and with it what rolled-back tests left in tables and indexes
    bulk.overdue_appointments(1_000, as_of=NOON)
    EventReminder.objects.update(due_at=TruncMinute("created_at"))
    sql.execute("ANALYZE event_reminders, calendar_events")
    walk_indexes()
    before = due_entries_read()

    assert dispatch(limit=100).sent_count == 2_000

    # A pass, the beginning of one in vain, the number left: each once over what has been sent.
    assert due_entries_read() - before < 3.5 * 2_000


def test_now_is_read_anew_for_each_batch():
    ticks = count()
    first = a_due_reminder(due_at=NOON - SECOND)
    later = a_due_reminder(due_at=NOON + 2 * SECOND)

    result = dispatch(a_job(now=lambda: NOON + next(ticks) * SECOND), limit=1)

    assert result.sent_count == 2
    first.refresh_from_db()
    later.refresh_from_db()
    assert first.sent_at is not None
    assert later.sent_at is not None
    assert first.sent_at < later.due_at < later.sent_at
    assert [message["occurredAt"] for _, message in told()] == [iso(first.sent_at), iso(later.sent_at)]


def test_a_stop_ends_the_run_between_two_batches():
    for n in range(6):
        a_due_reminder(due_at=NOON - n * MINUTE - MINUTE)
    answers = iter([True])

    result = dispatch(limit=2, keep_going=lambda: next(answers, False))

    assert (result.sent_count, result.skipped_locked_count) == (2, 0)
    assert [status for status, _ in statuses()] == ["Sent"] * 2 + ["Pending"] * 4


def test_the_number_of_statements_does_not_grow_with_the_rows(django_assert_num_queries):
    for n in range(25):
        a_due_reminder(due_at=NOON - n * MINUTE - MINUTE)
        a_due_reminder(due_at=NOON - n * MINUTE - 2 * DAY)

    # A claim and two marks (publish() goes past this count), two claims in vain, each in a savepoint; the number left.
    with django_assert_num_queries(13):
        assert dispatch() == DispatchResult(sent_count=25, skipped_count=25)


def test_an_appointments_message_field_by_field():
    appointment = an_open_appointment(start_at=NOON + HOUR - MINUTE, pending_expires_at=NOON)
    event = appointment.calendar_event

    assert dispatch().sent_count == 2

    reminder = event.reminders.get(offset_minutes=60)
    messages = {message["offsetMinutes"]: message for _, message in told()}
    assert messages.keys() == {60, 1_440}
    assert messages[60] == {
        "contractVersion": 1,
        "tenantId": str(event.tenant_id),
        "occurredAt": "2030-03-14T12:00:00.000000Z",
        "aggregateVersion": 1,
        "reminderId": str(reminder.id),
        "eventId": str(event.id),
        "ownerUserId": str(appointment.owner_user_id),
        "clientUserId": str(appointment.client_user_id),
        "kind": "AppointmentReminder",
        "startAt": "2030-03-14T12:59:00.000000Z",
        "timeZone": "Europe/Moscow",
        "offsetMinutes": 60,
        "appointmentId": str(appointment.id),
    }


@pytest.mark.parametrize("origin", [EventOrigin.MANUAL, EventOrigin.CRM_DEADLINE])
@pytest.mark.parametrize("client_user_id", [None, new_id()])
def test_a_message_of_another_origin_names_no_appointment_and_a_client_only_where_there_is_one(origin, client_user_id):
    reminder = a_reminder_of(
        origin,
        source_id=new_id(),
        client_user_id=client_user_id,
        version=7,
        time_zone="Asia/Kolkata",
        title="Иван Петров",
    )
    event = reminder.event

    dispatch()

    [(topic, message)] = told()
    assert topic == "reminder-due"
    assert message == {
        "contractVersion": 1,
        "tenantId": str(event.tenant_id),
        "occurredAt": "2030-03-14T12:00:00.000000Z",
        "aggregateVersion": 7,
        "reminderId": str(reminder.id),
        "eventId": str(event.id),
        "ownerUserId": str(event.owner_user_id),
        **({"clientUserId": str(client_user_id)} if client_user_id else {}),
        "kind": "CalendarReminder",
        "startAt": "2030-03-14T12:59:00.000000Z",
        "timeZone": "Asia/Kolkata",
        "offsetMinutes": 60,
    }


def test_a_message_is_keyed_by_its_event_and_can_be_told_only_once():
    reminder = a_due_reminder()

    dispatch()

    row = OutboxMessage.objects.get()
    assert (row.key, row.dedup_key, row.tenant_id) == (
        str(reminder.event_id),
        f"pin.calendar.reminder-due.v1:{reminder.id}",
        reminder.event.tenant_id,
    )


def test_the_owner_and_the_start_are_those_of_the_moment_of_sending():
    reminder = a_due_reminder()
    new_owner = new_id()
    sql.execute("UPDATE calendar_events SET owner_user_id = %s, version = 2", [new_owner])

    dispatch()

    [(_, message)] = told()
    assert (message["ownerUserId"], message["aggregateVersion"]) == (str(new_owner), 2)
    assert message["reminderId"] == str(reminder.id)


def test_a_pending_appointments_reminders_are_sent_too():
    an_open_appointment(start_at=NOON + DAY - MINUTE)

    assert dispatch().sent_count == 1


def test_history_is_never_touched():
    event = EventFactory.create(start_at=NOON + HOUR)
    history: list[dict[str, Any]] = [
        {"status": ReminderStatus.SENT, "sent_at": NOON - HOUR},
        {"status": ReminderStatus.SKIPPED, "skip_reason": "past"},
        {"status": ReminderStatus.SKIPPED, "skip_reason": "event_cancelled"},
    ]
    for number, fields in enumerate(history):
        EventReminder.objects.create(
            event=event,
            offset_minutes=number,
            due_at=NOON - HOUR,
            created_at=NOON - DAY,
            updated_at=NOON - DAY,
            **fields,
        )
    before = everything()

    assert dispatch() == DispatchResult()
    assert everything() == before


@pytest.mark.parametrize("status", [EventStatus.CANCELLED, EventStatus.COMPLETED])
def test_a_pending_row_of_a_finished_event_is_an_error_of_that_row_alone(status):
    broken = a_due_reminder(status=status, due_at=NOON - 3 * MINUTE)
    a_due_reminder()

    assert dispatch() == DispatchResult(sent_count=1, failed_count=1)
    broken.refresh_from_db()
    assert (broken.status, broken.updated_at) == ("Pending", broken.created_at)


def test_what_was_due_for_a_deleted_row_is_never_sent():
    reminder = a_due_reminder()
    reminder.delete()

    assert dispatch() == DispatchResult()
    assert told() == []
