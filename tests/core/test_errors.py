"""Refusals, actors, and whose fault an error of the database is."""

import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, ProgrammingError, connection

from core import database
from core.actors import Actor
from core.errors import Inconsistent, InvalidField, NotFound, Refused, VersionConflict
from core.ids import new_id
from tests.factories import OTHER_TENANT, TENANT, EventFactory


def test_a_refusal_has_a_sentence_a_code_and_facts():
    refusal = InvalidField("start_at", "must be ahead", status="Booked")

    assert (str(refusal), refusal.code, refusal.field, refusal.facts) == (
        "must be ahead",
        "invalid_field",
        "start_at",
        {"status": "Booked"},
    )
    assert [kind.code for kind in (Refused, NotFound, VersionConflict)] == ["refused", "not_found", "version_conflict"]


def test_a_broken_state_is_no_refusal():
    assert not issubclass(Inconsistent, Refused)


OWNER, ADMIN = new_id(), new_id()


@pytest.mark.parametrize(
    ("actor", "may"),
    [
        (Actor.user(OWNER, tenant_id=TENANT), True),
        (Actor.user(OWNER, tenant_id=OTHER_TENANT), False),
        (Actor.user(OWNER), False),
        (Actor.user(new_id(), tenant_id=TENANT), False),
        (Actor.tenant_admin(ADMIN, tenant_id=TENANT), True),
        (Actor.tenant_admin(OWNER, tenant_id=OTHER_TENANT), False),
        (Actor.operator(), True),
        (Actor.system(), False),
    ],
)
def test_who_acts_for_an_owner(actor, may):
    assert actor.acts_for_owner(OWNER, TENANT) is may


def test_ids_sort_in_the_order_in_which_they_were_made():
    ids = [new_id() for _ in range(1_000)]

    assert sorted(ids) == ids
    assert {id_.version for id_ in ids} == {7}


def _caused_by(statement: str) -> Exception:
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    except Exception as error:
        return error
    raise AssertionError(f"{statement} raised nothing")


def _raising(sqlstate: str) -> str:
    return f"DO $$ BEGIN RAISE 'made' USING ERRCODE = '{sqlstate}'; END $$"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("sqlstate", "is_infrastructure"),
    [
        ("57P01", True),  # an administrator ended the session
        ("57P03", True),  # the server is starting up
        ("53300", True),  # too many connections
        ("08006", True),  # the connection failed
        ("25006", True),  # a fail-over made it read-only
        ("58030", True),  # the disk
        ("57014", False),  # one statement was cancelled: perhaps too much work for its limit
        ("40001", False),  # serialisation failure
        ("40P01", False),  # deadlock
        ("55P03", False),  # a lock was not to be had in time
        ("23505", False),
        ("22P02", False),
        ("P0001", False),
    ],
)
def test_whose_fault_an_error_is(sqlstate, is_infrastructure):
    error = _caused_by(_raising(sqlstate))

    assert database.sqlstate(error) == sqlstate
    assert database.is_infrastructure_error(error) is is_infrastructure
    assert database.is_cancelled(error) is (sqlstate == "57014")
    assert database.is_in_the_way(error) is (sqlstate in ("57014", "40001", "40P01", "55P03"))


@pytest.mark.parametrize(
    ("error", "is_infrastructure"),
    [
        (OperationalError("server closed the connection unexpectedly"), True),
        (InterfaceError("connection already closed"), True),
        (DataError("timestamp too large"), False),
        (IntegrityError("?"), False),
        (ProgrammingError("?"), False),
        (ValueError("?"), False),
    ],
)
def test_an_error_without_a_state_is_the_infrastructures_when_its_class_says_so(error, is_infrastructure):
    assert database.is_infrastructure_error(error) is is_infrastructure


@pytest.mark.django_db
def test_the_broken_constraint_is_named():
    event = EventFactory.create()

    error = _caused_by(f"UPDATE calendar_events SET version = 0 WHERE id = '{event.id}'")

    assert database.constraint_name(error) == "ck_calendar_events_version"
    assert database.constraint_name(ValueError()) is None
