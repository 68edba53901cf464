"""The real commands from the command line: what they print, refuse and answer with."""

import io
import json
from typing import Any

import pytest
from django.core.management import ManagementUtility, call_command

from appointments.models import Appointment
from core import clock
from pin_calendar.models import CalendarEvent
from tests import bulk
from tests.appointments import state
from tests.factories import NOON, SECOND
from tests.invariants import violations
from tests.processes import DISPATCH, TIMEOUT, result_of, run_to_end

pytestmark = pytest.mark.django_db(transaction=True)


def test_once_prints_the_result_of_a_timeout_cycle_as_one_line():
    bulk.overdue_appointments(4, as_of=clock.now())

    code, worker = run_to_end(TIMEOUT, "--once", "--batch-size=3")

    result = result_of(worker)
    assert code == 0
    assert list(result) == [
        "runId",
        "asOf",
        "expiredCount",
        "slotsReleasedCount",
        "slotsExpiredCount",
        "skippedLockedCount",
        "failedCount",
        "durationMs",
    ]
    assert (result["expiredCount"], result["slotsReleasedCount"] + result["slotsExpiredCount"]) == (3, 3)
    assert [line["event"] for line in worker.logged] == [
        "cycle started",
        "batch selected",
        *["appointment expired"] * 3,
        "cycle completed",
    ]
    assert {line["correlationId"] for line in worker.logged} == {result["runId"]}
    assert violations() == []


def test_once_prints_the_result_of_a_dispatch_run_as_one_line():
    bulk.overdue_appointments(2, as_of=clock.now(), lead_passed_every=1)

    code, worker = run_to_end(DISPATCH, "--once")

    result = result_of(worker)
    assert code == 0
    assert list(result) == [
        "runId",
        "asOf",
        "sentCount",
        "skippedCount",
        "skippedLockedCount",
        "failedCount",
        "durationMs",
    ]
    assert result["sentCount"] == 4
    assert [line["event"] for line in worker.logged].count("reminder-sent") == 4
    assert violations() == []


@pytest.mark.parametrize("command", [TIMEOUT, DISPATCH])
def test_once_with_nothing_to_do_succeeds(command):
    code, worker = run_to_end(command, "--once")

    assert code == 0
    assert {value for name, value in result_of(worker).items() if name.endswith("Count")} == {0}


@pytest.mark.parametrize(
    ("command", "flags", "named"),
    [
        (TIMEOUT, ["--interval=0"], "argument --interval"),
        (TIMEOUT, ["--interval=nan"], "argument --interval"),
        (TIMEOUT, ["--batch-size=-1"], "argument --batch-size"),
        (TIMEOUT, ["--batch-size=0"], "argument --batch-size"),
        (TIMEOUT, ["--max-duration=inf"], "argument --max-duration"),
        (TIMEOUT, ["--chunk-size=0"], "argument --chunk-size"),
        (TIMEOUT, ["--chunk-size=1001"], "argument --chunk-size"),
        (TIMEOUT, ["--dry-run", "--as-of=2030-03-14T12:00:00"], "argument --as-of"),
        (TIMEOUT, ["--once", "--as-of=2030-03-14T12:00:00Z"], "argument --as-of"),
        (TIMEOUT, ["--onec"], "--onec"),
        (DISPATCH, ["--interval=-0.5"], "argument --interval"),
        (DISPATCH, ["--batch-size=nan"], "argument --batch-size"),
        (DISPATCH, ["--as-of=2030-03-14T12:00:00Z"], "argument --as-of"),
        (DISPATCH, ["--chunk-size=5"], "--chunk-size"),
    ],
)
def test_a_bad_flag_exits_2_and_is_named(command, flags, named, capsys):
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["manage.py", command, *flags]).execute()

    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert named in said.err


def test_a_dry_run_prints_what_would_lapse_and_changes_nothing():
    bulk.overdue_appointments(4, as_of=NOON)
    broken = Appointment.objects.order_by("pending_expires_at")[0]
    CalendarEvent.objects.filter(pk=broken.calendar_event_id).update(status="Completed")
    before = state.everything()

    rows = preview(TIMEOUT, "--batch-size=3")

    assert state.everything() == before
    oldest_first = Appointment.objects.overdue(NOON)[:3]
    assert [row["appointmentId"] for row in rows] == [str(appointment.id) for appointment in oldest_first]
    assert [row["slotOutcome"] for row in rows] == ["inconsistent", "released", "expired"]
    assert [row["pendingExpiresAt"] for row in rows] == [clock.iso(NOON - n * SECOND) for n in (4, 3, 2)]


def test_a_dry_run_of_the_dispatcher_changes_nothing():
    bulk.overdue_appointments(2, as_of=NOON, lead_passed_every=1)
    before = state.everything()

    rows = preview(DISPATCH)

    assert state.everything() == before
    assert [row["outcome"] for row in rows] == ["sent"] * 4


def preview(command: str, *flags: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    call_command(command, "--dry-run", f"--as-of={clock.iso(NOON)}", *flags, stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"APPOINTMENT_TIMEOUT_INTERVALL_SECONDS": "5"},
            "APPOINTMENT_TIMEOUT_INTERVALL_SECONDS is not a setting of this program; "
            "did you mean APPOINTMENT_TIMEOUT_INTERVAL_SECONDS?",
        ),
        ({"APPOINTMENT_TIMEOUT_BATCH_SIZE": "many"}, "APPOINTMENT_TIMEOUT_BATCH_SIZE: Input should be a valid integer"),
        ({"REMINDER_STALE_AFTER_MINUTES": "1"}, "REMINDER_STALE_AFTER_MINUTES must be at least two ticks"),
        ({"DATABASE_URL": "mysql://a:b@127.0.0.1/x"}, "DATABASE_URL: URL scheme should be"),
    ],
)
def test_a_bad_setting_stops_the_start_with_2_and_a_sentence_that_names_it(environ, sentence):
    code, worker = run_to_end(TIMEOUT, "--once", **environ)

    assert (code, worker.said) == (2, [])
    assert len(worker.events()) == 1
    assert worker.events()[0].startswith(sentence)


@pytest.mark.parametrize("chunk_size", [1, 200])
def test_250_poisoned_requests_at_the_head_keep_nobody_waiting_beyond_the_cycle(chunk_size):
    bulk.overdue_appointments(300, as_of=clock.now())
    head = list(Appointment.objects.order_by("pending_expires_at").values_list("calendar_event_id", flat=True)[:250])
    CalendarEvent.objects.filter(pk__in=head).update(status="Completed")

    code, worker = run_to_end(TIMEOUT, "--once", f"--chunk-size={chunk_size}")

    result = result_of(worker)
    assert (code, result["expiredCount"], result["failedCount"]) == (0, 50, 250)
    assert worker.events(level="error").count("item failed") == 250
    assert set(Appointment.objects.filter(status="Pending").values_list("calendar_event_id", flat=True)) == set(head)
