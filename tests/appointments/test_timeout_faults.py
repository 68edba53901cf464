"""The cycle of appointment-timeout meets broken items, and items in another hand."""

from typing import Any

import pytest

from appointments.models import Appointment
from appointments.timeout import TimeoutJob, TimeoutResult
from contracts.calendar import EventStatusChanged
from core import sql
from outbox.models import OutboxMessage
from tests import bulk
from tests.appointments import state
from tests.appointments.concurrently import held_elsewhere
from tests.appointments.timeouts import (
    Until,
    expire,
    logged,
    one_refused_by_the_database,
    poisoned,
    statuses,
)
from tests.factories import DAY, NOON, an_overdue_appointment
from tests.keep_going import always

pytestmark = pytest.mark.django_db

CHUNKS = pytest.mark.parametrize("chunk_size", [1, 200])


def failed_ids(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line["appointmentId"] for line in logged(capsys, "item failed")]


# Broken items


@CHUNKS
@pytest.mark.parametrize(
    "damage",
    [
        {"calendar_event__status": "Completed"},
        {"calendar_event__status": "Cancelled"},
        {"slot__status": "Available"},
        {"slot__status": "Expired"},
        {"calendar_event__origin": "CrmDeadline"},
    ],
)
def test_a_state_that_the_cascade_does_not_expect_is_an_error_of_that_item_alone(
    damage: dict[str, Any], chunk_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, healthy = an_overdue_appointment(pending_expires_at=NOON - DAY, **damage), an_overdue_appointment()
    before = [row for row in state.everything() if str(broken.id) in row[1] or str(broken.slot_id) in row[1]]

    result = expire(chunk_size=chunk_size)

    assert result == TimeoutResult(expired_count=1, slots_released_count=1, failed_count=1)
    assert failed_ids(capsys) == [str(broken.id)]
    assert [row for row in state.everything() if str(broken.id) in row[1] or str(broken.slot_id) in row[1]] == before
    assert Appointment.objects.get(pk=healthy.pk).status == "Expired"


@CHUNKS
def test_a_poison_item_first_of_200_leaves_199_done_and_stays_pending(
    chunk_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    poisoned(1, healthy=199)
    job = TimeoutJob(chunk_size=chunk_size)

    assert (expire(job=job).expired_count, statuses()) == (199, {"Pending": 1, "Expired": 199})
    first = failed_ids(capsys)
    assert expire(job=job) == TimeoutResult(failed_count=1)

    assert statuses() == {"Pending": 1, "Expired": 199}
    assert OutboxMessage.objects.count() == 2 * 199
    assert first == failed_ids(capsys)


@CHUNKS
def test_an_item_that_the_database_refuses_is_isolated_and_the_rest_commits(
    chunk_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = one_refused_by_the_database()
    bulk.overdue_appointments(20)

    result = expire(chunk_size=chunk_size)

    assert (result.expired_count, result.failed_count, result.skipped_locked_count) == (20, 1, 0)
    assert failed_ids(capsys) == [str(refused.id)]
    records = (Appointment.objects.get(pk=refused.pk), refused.slot, refused.calendar_event)
    for record in records:
        record.refresh_from_db()
    assert [(record.status, record.version) for record in records] == [("Pending", 1), ("Booked", 1), ("Scheduled", 1)]
    assert OutboxMessage.objects.count() == 2 * 20
    assert expire(chunk_size=chunk_size) == TimeoutResult(failed_count=1)


@CHUNKS
def test_an_item_whose_message_cannot_be_serialised_is_rolled_back_alone(
    chunk_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick, healthy = an_overdue_appointment(pending_expires_at=NOON - DAY), an_overdue_appointment()
    serialise = EventStatusChanged.to_json

    def fail_for_the_sick(message: EventStatusChanged) -> str:
        if message.event_id == sick.calendar_event_id:
            raise ValueError("a surrogate can't be encoded")
        return serialise(message)

    monkeypatch.setattr(EventStatusChanged, "to_json", fail_for_the_sick)

    assert expire(chunk_size=chunk_size) == TimeoutResult(expired_count=1, slots_released_count=1, failed_count=1)

    sick = Appointment.objects.get(pk=sick.pk)
    assert (sick.status, sick.slot.status, sick.calendar_event.status) == ("Pending", "Booked", "Scheduled")
    assert {body["appointmentId"] for _, body in state.told()} == {str(healthy.id)}


@pytest.mark.parametrize("title", ["Показ для Анны", "Показ\nАнна, тел. 20000000", 'Показ "Анна"\nDETAIL: x\n\nАнна'])
def test_a_failed_item_is_told_by_its_id_and_error_and_without_a_word_of_the_row(
    title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = one_refused_by_the_database(calendar_event__title=title, cancel_reason="Анна просила")

    expire()

    text = capsys.readouterr().err
    assert "ck_calendar_events_version" in text
    assert f'"appointmentId":"{refused.id}"' in text
    assert "Анна" not in text
    assert "Анны" not in text
    assert "20000000" not in text


def test_what_failed_is_tried_after_the_others_in_the_next_cycle() -> None:
    poisoned(3)
    job = TimeoutJob()
    expire(job=job)
    healthy = an_overdue_appointment()

    result = expire(job=job, limit=1)

    assert result == TimeoutResult(expired_count=1, slots_released_count=1, is_batch_full=True)
    assert Appointment.objects.get(pk=healthy.pk).status == "Expired"
    assert expire(job=job) == TimeoutResult(failed_count=3)


@CHUNKS
def test_250_poisoned_at_the_head_do_not_delay_those_behind_and_at_most_50_of_them_are_tried_again(
    chunk_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    poisoned(250, healthy=4)
    job = TimeoutJob(chunk_size=chunk_size)

    assert expire(job=job) == TimeoutResult(
        expired_count=4, slots_released_count=2, slots_expired_count=2, failed_count=250
    )
    assert len(set(failed_ids(capsys))) == 250
    again: list[str] = []
    for _ in range(5):
        assert expire(job=job) == TimeoutResult(failed_count=50)
        again += failed_ids(capsys)

    assert len(set(again)) == 250


def test_what_was_repaired_by_hand_expires_in_the_next_cycle() -> None:
    poisoned(2, healthy=1)
    job = TimeoutJob()
    expire(job=job)
    sql.execute("UPDATE calendar_events SET status = 'Scheduled' WHERE status = 'Completed'")

    assert (expire(job=job).expired_count, statuses()) == (2, {"Expired": 3})


def test_only_what_is_expired_counts_against_the_limit() -> None:
    poisoned(5, healthy=3)

    result = expire(limit=2)

    assert (result.expired_count, result.failed_count, result.is_batch_full) == (2, 5, True)


def test_a_stop_in_the_middle_of_isolating_leaves_the_rest_for_the_next_cycle() -> None:
    one_refused_by_the_database()
    bulk.overdue_appointments(15)
    keep_going = Until(2)

    result = TimeoutJob(chunk_size=200).cycle(as_of=NOON, limit=200, keep_going=keep_going)

    assert result.expired_count < 15
    assert result.skipped_locked_count == 0
    assert keep_going.asked < 12
    assert statuses()["Pending"] == 16 - result.expired_count
    assert expire().expired_count == 15 - result.expired_count
    assert statuses() == {"Pending": 1, "Expired": 15}


def test_a_corrupt_time_zone_hurts_nobody() -> None:
    an_overdue_appointment(slot__time_zone="Mars/Olympus", calendar_event__time_zone="Mars/Olympus")
    an_overdue_appointment()

    assert expire().expired_count == 2


# In another hand

HELD = {
    "appointment": "SELECT 1 FROM appointments WHERE id = %s FOR NO KEY UPDATE",
    "slot": "SELECT 1 FROM availability_slots WHERE id = (SELECT slot_id FROM appointments WHERE id = %s) FOR UPDATE",
    "event": "SELECT 1 FROM calendar_events WHERE source_id = %s FOR NO KEY UPDATE",
    "a reminder": """
        SELECT 1 FROM event_reminders WHERE offset_minutes = 60 AND event_id = (
            SELECT id FROM calendar_events WHERE source_id = %s) FOR NO KEY UPDATE""",
}


@pytest.mark.django_db(transaction=True)
@CHUNKS
@pytest.mark.parametrize("what", HELD)
def test_an_item_in_another_hand_is_skipped_without_waiting_and_counted(what: str, chunk_size: int) -> None:
    held, free = an_overdue_appointment(pending_expires_at=NOON - DAY), an_overdue_appointment()
    sql.execute("SET statement_timeout = '2s'")

    with held_elsewhere(HELD[what], held.id):
        result = expire(chunk_size=chunk_size)

    assert result == TimeoutResult(expired_count=1, slots_released_count=1, skipped_locked_count=1)
    assert Appointment.objects.get(pk=free.pk).status == "Expired"
    assert expire(chunk_size=chunk_size) == TimeoutResult(expired_count=1, slots_released_count=1)
    sql.execute("RESET statement_timeout")


@pytest.mark.django_db(transaction=True)
def test_200_locked_at_the_head_do_not_delay_those_behind() -> None:
    bulk.overdue_appointments(203)
    oldest = "SELECT 1 FROM appointments ORDER BY pending_expires_at, id LIMIT 200 FOR NO KEY UPDATE"

    with held_elsewhere(oldest):
        result = expire(limit=200)

    assert (result.expired_count, result.skipped_locked_count) == (3, 200)


@pytest.mark.django_db(transaction=True)
def test_a_reader_and_a_row_that_points_at_the_item_hold_nobody_up() -> None:
    appointment = an_overdue_appointment()
    pointing = "SELECT 1 FROM appointments WHERE id = %s FOR KEY SHARE"

    with held_elsewhere(pointing, appointment.id):
        assert expire().expired_count == 1


@pytest.mark.django_db(transaction=True)
def test_a_skipped_item_whose_holder_confirms_it_is_neither_expired_nor_counted_again() -> None:
    appointment = an_overdue_appointment()
    confirm = "UPDATE appointments SET status = 'Confirmed', version = 2 WHERE id = %s"

    with held_elsewhere(confirm, appointment.id, commits=True):
        assert expire().skipped_locked_count == 1

    assert expire() == TimeoutResult()
    assert TimeoutJob().cycle(as_of=NOON + DAY, limit=1, keep_going=always) == TimeoutResult()
