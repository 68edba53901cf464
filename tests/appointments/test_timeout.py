"""The cycle of appointment-timeout: what it selects, what becomes of it, what it tells."""

import datetime
import json
from typing import Any

import pytest
from django.db import connection

from appointments.models import Appointment
from appointments.timeout import Lapse, TimeoutJob, TimeoutResult
from audit.models import AuditLine
from core import sql
from core.correlation import correlated
from outbox.models import OutboxMessage
from pin_calendar.models import AvailabilitySlot
from tests import bulk
from tests.appointments import state
from tests.appointments.timeouts import Until, expire, logged, statuses
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    an_open_appointment,
    an_overdue_appointment,
)
from tests.keep_going import always

pytestmark = pytest.mark.django_db


def slot_after_expiry(appointment: Appointment) -> str:
    expire()
    return AvailabilitySlot.objects.get(pk=appointment.slot_id).status


def test_nothing_overdue_changes_nothing() -> None:
    an_open_appointment()
    before = state.everything()

    assert expire() == TimeoutResult()
    assert state.everything() == before


@pytest.mark.parametrize("chunk_size", [1, 200])
def test_the_whole_cascade_happens(chunk_size: int) -> None:
    appointment = an_overdue_appointment()

    with correlated() as run_id:
        result = expire(chunk_size=chunk_size)

    assert result == TimeoutResult(expired_count=1, slots_released_count=1)
    expired = Appointment.objects.get(pk=appointment.pk)
    assert (expired.status, expired.cancelled_by, expired.cancel_reason) == ("Expired", None, "")
    records = (expired, expired.slot, expired.calendar_event)
    assert [(record.version, record.updated_at) for record in records] == [(2, NOON)] * 3
    assert expired.slot.status == "Available"
    event = expired.calendar_event
    assert (event.status, event.cancel_reason) == ("Cancelled", "Запись не подтверждена агентом в срок")
    assert set(event.reminders.values_list("status", "skip_reason")) == {("Skipped", "event_cancelled")}
    assert [(topic, told["reason"], told["aggregateVersion"]) for topic, told in state.told()] == [
        ("appointment-cancelled", "Expired", 2),
        ("event-status-changed", "Expired", 2),
    ]
    assert set(OutboxMessage.objects.values_list("correlation_id", flat=True)) == {run_id}
    assert set(AuditLine.objects.values_list("actor_kind", "actor_user_id", "correlation_id")) == {
        ("System", None, run_id)
    }


# Selection


@pytest.mark.parametrize(
    ("deadline", "is_selected"), [(NOON - MICROSECOND, True), (NOON, False), (NOON + MICROSECOND, False)]
)
def test_a_deadline_of_exactly_as_of_is_not_yet_overdue(deadline: datetime.datetime, is_selected: bool) -> None:
    an_overdue_appointment(pending_expires_at=deadline)

    assert expire().expired_count == is_selected


def test_an_auto_confirmed_appointment_is_never_selected() -> None:
    an_overdue_appointment(status="Confirmed", pending_expires_at=None, slot__auto_confirm=True, created_at=NOON - DAY)
    an_overdue_appointment(status="Confirmed", pending_expires_at=NOON - DAY)

    assert expire() == TimeoutResult()


def test_the_oldest_deadline_goes_first_and_the_limit_counts() -> None:
    young, old, middle = (an_overdue_appointment(pending_expires_at=NOON - age * HOUR) for age in (1, 3, 2))

    assert expire(limit=2) == TimeoutResult(expired_count=2, slots_released_count=2, is_batch_full=True)

    assert set(Appointment.objects.filter(status="Expired")) == {old, middle}
    assert expire(limit=2) == TimeoutResult(expired_count=1, slots_released_count=1)
    young.refresh_from_db()
    assert young.status == "Expired"


@pytest.mark.parametrize("chunk_size", [1, 7, 200])
def test_a_chunk_never_takes_more_than_the_limit(chunk_size: int) -> None:
    bulk.overdue_appointments(12)

    assert expire(chunk_size=chunk_size, limit=10).expired_count == 10
    assert statuses() == {"Expired": 10, "Pending": 2}


def test_all_tenants_are_served() -> None:
    an_overdue_appointment()
    an_overdue_appointment(slot__tenant_id=OTHER_TENANT)

    expire(chunk_size=200)

    assert OutboxMessage.objects.filter(tenant_id=OTHER_TENANT).count() == 2


def test_deadlines_on_weekends_and_holidays_fire_too() -> None:
    new_years_day = datetime.datetime(2028, 1, 1, tzinfo=datetime.UTC)  # a Saturday
    an_overdue_appointment(pending_expires_at=new_years_day - MICROSECOND, start_at=new_years_day + DAY)

    result = TimeoutJob().cycle(as_of=new_years_day, limit=1, keep_going=always)

    assert result.expired_count == 1


def test_the_same_instant_twice_does_nothing_the_second_time() -> None:
    bulk.overdue_appointments(3)
    expire()
    before = state.everything()

    assert expire() == TimeoutResult()
    assert state.everything() == before


# The slot


def test_a_slot_that_can_still_be_booked_is_available_again() -> None:
    assert slot_after_expiry(an_overdue_appointment(start_at=NOON + 2 * HOUR)) == "Available"


def test_at_the_very_instant_of_the_lead_time_the_slot_is_available_again() -> None:
    assert slot_after_expiry(an_overdue_appointment(start_at=NOON + HOUR)) == "Available"


def test_a_slot_whose_lead_time_has_passed_expires() -> None:
    assert slot_after_expiry(an_overdue_appointment(start_at=NOON + HOUR - MICROSECOND)) == "Expired"


def test_after_days_without_a_worker_a_request_whose_start_is_past_expires_once_and_its_slot_never_returns() -> None:
    appointment = an_overdue_appointment(start_at=NOON - 2 * DAY, pending_expires_at=NOON - 3 * DAY)

    assert slot_after_expiry(appointment) == "Expired"

    assert expire() == TimeoutResult()
    assert [told.get("slotOutcome") for _, told in state.told()] == ["Expired", None]


# Stopping


def test_a_cycle_that_is_told_to_stop_starts_nothing() -> None:
    bulk.overdue_appointments(3)
    before = state.everything()

    result = TimeoutJob().cycle(as_of=NOON, limit=200, keep_going=lambda: False)

    assert result == TimeoutResult()
    assert state.everything() == before


@pytest.mark.parametrize(("chunk_size", "expired"), [(1, 2), (3, 6)])
def test_a_stop_in_mid_cycle_leaves_the_rest_whole_for_the_next(chunk_size: int, expired: int) -> None:
    bulk.overdue_appointments(10)

    result = TimeoutJob(chunk_size=chunk_size).cycle(as_of=NOON, limit=200, keep_going=Until(2))

    assert (result.expired_count, result.skipped_locked_count) == (expired, 0)
    assert OutboxMessage.objects.count() == 2 * expired
    assert expire().expired_count == 10 - expired


# What is told


def test_the_log_has_the_cycle_and_every_item_by_ids_alone(capsys: pytest.CaptureFixture[str]) -> None:
    released = an_overdue_appointment(calendar_event__title="Показ для Анны")
    lapsed = an_overdue_appointment(start_at=NOON + MINUTE)

    expire()

    selected, *items = logged(capsys)
    assert (selected["event"], selected["count"]) == ("batch selected", 2)
    told = {item["appointmentId"]: item for item in items}
    for appointment, outcome in ((released, "released"), (lapsed, "expired")):
        line = told[str(appointment.id)]
        assert (line["event"], line["slotOutcome"]) == ("appointment expired", outcome)
        assert (line["slotId"], line["tenantId"]) == (str(appointment.slot_id), str(appointment.tenant_id))
        assert line["calendarEventId"] == str(appointment.calendar_event_id)
        assert "Анн" not in json.dumps(line, ensure_ascii=False)


def test_a_preview_tells_what_a_cycle_would_do_and_changes_nothing() -> None:
    broken = an_overdue_appointment(pending_expires_at=NOON - 3 * HOUR, calendar_event__status="Completed")
    released = an_overdue_appointment(pending_expires_at=NOON - 2 * HOUR)
    expired = an_overdue_appointment(pending_expires_at=NOON - HOUR, start_at=NOON + MINUTE)
    an_overdue_appointment()
    an_open_appointment()
    before = state.everything()

    preview = list(TimeoutJob().preview(as_of=NOON, limit=3))

    outcomes = ((broken, "inconsistent"), (released, "released"), (expired, "expired"))
    assert preview == [
        Lapse(appointment.id, appointment.slot_id, appointment.pending_expires_at, outcome)
        for appointment, outcome in outcomes
    ]
    assert state.everything() == before


# Cost


def statements_of(chunk_size: int, *, count: int, limit: int = 200) -> list[tuple[str, Any]]:
    """The statements of a cycle over `count` new items, of which it may take `limit`."""
    sql.execute("DROP TABLE IF EXISTS made")
    bulk.overdue_appointments(count)
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, statement: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((statement, params))
        return execute(statement, params, many, context)

    with connection.execute_wrapper(note):
        assert expire(chunk_size=chunk_size, limit=limit).expired_count == min(count, limit)
    return statements


def test_an_item_costs_the_same_few_statements_however_many_there_are() -> None:
    one, three, nine = (len(statements_of(1, count=count)) for count in (1, 3, 9))

    an_item = (three - one) // 2
    assert (three - one, nine - one) == (2 * an_item, 8 * an_item)
    assert an_item <= 12


def test_a_chunk_costs_the_same_statements_however_many_items_it_holds() -> None:
    assert len({len(statements_of(200, count=count)) for count in (1, 3, 60)}) == 1


def test_the_claim_walks_the_partial_index_and_not_the_history() -> None:
    """20,000 old appointments, half of them Confirmed, beside a few overdue ones."""
    bulk.overdue_appointments(20_000)
    sql.execute("UPDATE appointments SET status = CASE WHEN random() < 0.5 THEN 'Confirmed' ELSE 'Expired' END")
    statements = statements_of(1, count=50, limit=3)
    sql.execute("SET CONSTRAINTS ALL IMMEDIATE; ANALYZE appointments, availability_slots, calendar_events")
    selections = [(text, params) for text, params in statements if "appointment.status = 'Pending'" in text]
    assert len(selections) == 5  # the size of the batch, three claims, what was in another hand

    for text, params in selections:
        plan = "\n".join(line for (line,) in sql.fetch(f"EXPLAIN {text}", params))
        assert "ix_appointments_pending_expires_at" in plan, plan
        assert "Seq Scan" not in plan, plan
