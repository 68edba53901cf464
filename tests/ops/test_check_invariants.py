"""`manage.py check_invariants`: what it prints, its exit code, and the one moment of the database that it sees."""

import io
import json
import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from core import sql
from ops import proof
from ops.invariants import INVARIANTS
from tests.ops import lives
from tests.ops.breaking import change, faults

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_exits_0_when_all_holds():
    out = io.StringIO()

    call_command("check_invariants", stdout=out)

    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(INVARIANTS)
    assert all(line.endswith("ok") for line in lines[1:])


def test_it_exits_1_and_names_what_is_violated():
    slot = lives.a_slot()
    change("availability_slots", slot.id, status="'Booked'")
    out = io.StringIO()

    with pytest.raises(CommandError, match=r"1 of .* invariants are violated: INV-SLT-3") as failure:
        call_command("check_invariants", stdout=out)

    assert failure.value.returncode == 1
    assert f"{slot.id}: Booked, and held by 0 appointments" in out.getvalue()


def test_it_tells_all_as_json():
    slot = lives.a_slot()
    change("availability_slots", slot.id, status="'Booked'")
    out = io.StringIO()

    with pytest.raises(CommandError):
        call_command("check_invariants", "--json", stdout=out)

    told = json.loads(out.getvalue())
    assert told["isHealthy"] is False
    [violated] = [invariant for invariant in told["invariants"] if invariant["violationCount"]]
    assert violated == {
        "name": "INV-SLT-3",
        "meaning": "a Booked slot is held by exactly one appointment, any other slot by none",
        "warnsOnly": False,
        "checkedCount": 1,
        "violationCount": 1,
        "first": [{"id": str(slot.id), "fault": "Booked, and held by 0 appointments"}],
    }


def test_a_terminal_gets_a_table():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()

    call_command("check_invariants", stdout=out, stderr=Terminal())

    assert "first ids" in out.getvalue()


def test_it_sees_one_moment_of_the_database():
    slot = lives.a_slot()

    def break_it() -> None:
        change("availability_slots", slot.id, status="'Booked'")
        connection.close()

    with proof.snapshot():
        meanwhile = threading.Thread(target=break_it)
        meanwhile.start()
        meanwhile.join()
        assert faults("INV-SLT-3") == []
    assert faults("INV-SLT-3") == [str(slot.id)]


def test_it_changes_nothing_and_is_not_cut_off():
    with proof.snapshot():
        assert sql.fetch("SHOW transaction_read_only") == [("on",)]
        assert sql.fetch("SHOW transaction_isolation") == [("repeatable read",)]
        assert sql.fetch("SHOW statement_timeout") == [("0",)]
    with transaction.atomic():
        assert sql.fetch("SHOW statement_timeout") != [("0",)]
