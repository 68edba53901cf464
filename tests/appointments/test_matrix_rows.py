"""The matrix row by row against the table that is typed a second time: what each says, and that there is no other."""

from itertools import combinations, product

import pytest

from appointments.matrix import MATRIX, AutoConfirm, Party, Row, Verb, find
from appointments.models import AppointmentStatus
from tests.appointments.table import AGREED, ANY, AUTO, NOT_AUTO, TABLE

# The words of the specification for what the lines above say in one.
WHEN = {
    "book": "slot Available and now <= start_at − lead",
    "expire": "pending_expires_at < AsOf",
    "complete": "at or after start_at",
    "no_show": "at or after start_at",
    "reschedule": "before start_at, new slot Available and now <= its start − its lead",
} | dict.fromkeys(("confirm", "decline", "cancel"), "before start_at")
SLOT = {"stays": "stays Booked", "release": "release rule", "swap": "old: release rule; new: Booked"}
EVENTS = {"stays": "stays Scheduled", "moved": "times moved", "Cancelled": "→ Cancelled", "Completed": "→ Completed"}
REMINDERS = {"kept": "kept", "Skipped": "→ Skipped", "rematerialised": "rematerialised"}
ON = {ANY: "any slot", AUTO: "auto-confirm slot", NOT_AUTO: "not auto-confirm"}
BOOKINGS = {False: ("Pending", ("appointment-booked",)), True: ("Confirmed", ("appointment-booked", AGREED))}


def topics_of(row: Row) -> tuple[str, ...]:
    return tuple(message.TOPIC.removeprefix("pin.calendar.").removesuffix(".v1") for message in row.messages)


@pytest.mark.parametrize(("verb", "status", "party"), list(product(Verb, AppointmentStatus, Party)))
def test_a_row_says_what_the_line_of_the_table_says_and_there_is_no_other(
    verb: Verb, status: AppointmentStatus, party: Party
) -> None:
    for auto_confirm in (False, True):
        lines = [
            line
            for line in TABLE
            if (line.verb, line.from_) == (verb, status)
            and party == (f"{line.by} worker" if line.by == "timeout" else line.by)
            and auto_confirm in line.new_slot_auto_confirm
        ]
        row = find(verb, party, status, auto_confirm=auto_confirm)
        assert len(lines) == (row is not None)
        if row:
            [line] = lines
            assert (row.to, row.when, row.slot) == (line.to, WHEN[line.verb], SLOT[line.slot])
            assert (row.event, row.reminders) == (EVENTS[line.event], REMINDERS[line.reminders])
            assert topics_of(row) == tuple(message.split()[0] for message in line.messages)
            assert row.auto_confirm == ON[line.new_slot_auto_confirm]


@pytest.mark.parametrize("auto_confirm", [False, True])
@pytest.mark.parametrize(("verb", "party"), list(product(Verb, Party)))
def test_only_a_booking_by_the_client_begins_an_appointment(verb: Verb, party: Party, auto_confirm: bool) -> None:
    row = find(verb, party, None, auto_confirm=auto_confirm)

    assert (row is not None) == ((verb, party) == ("book", "client"))
    if row:
        assert (row.to, topics_of(row)) == BOOKINGS[auto_confirm]
        assert (row.when, row.slot) == (WHEN["book"], "Available → Booked")
        assert (row.event, row.reminders) == ("created Scheduled", "materialised")


def test_no_two_rows_fit_one_request() -> None:
    for one, other in combinations(MATRIX, 2):
        if one.verb is other.verb and one.by & other.by and (one.from_ & other.from_ or one.from_ == other.from_):
            assert {one.auto_confirm, other.auto_confirm} == {AutoConfirm.YES, AutoConfirm.NO}
