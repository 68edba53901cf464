"""The database itself refuses what must never be: every constraint of every table of ours, broken by SQL.

The list of constraints is read from PostgreSQL, so that a new one without a case here fails.
"""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from core import sql
from core.database import constraint_name, sqlstate
from core.ids import new_id
from outbox.publish import publish
from tests.admin.rows import a_deadline, a_delivery, a_lead_feed_entry, an_assignee_change
from tests.appointments import state
from tests.appointments.breaks import ALSO, BREAKS
from tests.factories import NOON, TENANT, EventFactory, SlotFactory, an_overdue_appointment
from tests.outbox.messages import a_change

pytestmark = pytest.mark.django_db

_CONSTRAINTS = """
SELECT conname, conrelid::regclass::text, contype::text, ARRAY(
    SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey) ORDER BY attnum)
FROM pg_constraint WHERE conrelid::regclass::text = ANY(%s)
"""
_UNIQUE_INDEXES = """
SELECT indexrelid::regclass::text FROM pg_index
WHERE indrelid::regclass::text = ANY(%s) AND indisunique
  AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
"""


@pytest.fixture
def world() -> None:
    """An overdue appointment with all that belongs to it; of the same owner a Manual event and a free slot right behind
    the Booked one; a row or more in each other table.
    """
    appointment = an_overdue_appointment()
    EventFactory.create(owner_user_id=appointment.owner_user_id)
    SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=appointment.slot.end_at)
    publish([a_change()], as_of=NOON)
    for make in (a_delivery, a_deadline, an_assignee_change, a_lead_feed_entry):
        make()
    sql.execute(
        """
        INSERT INTO audit_log (id, tenant_id, aggregate, aggregate_id, verb, from_status, to_status, actor_kind,
                               correlation_id, occurred_at)
        VALUES (%(id)s, %(id)s, 'Slot', %(id)s, 'book', 'Available', 'Booked', 'User', %(id)s, %(now)s);
        INSERT INTO job_runs (id, job, instance, as_of, started_at, duration_ms, outcome, counts, error)
        VALUES (%(id)s, 'fake', 'here:1', %(now)s, %(now)s, 1, 'Succeeded', '{}', '');
        INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES ('fake', %(id)s, %(now)s);
        INSERT INTO reassignment_conflicts (id, tenant_id, appointment_id, from_owner_user_id, to_owner_user_id,
                                            correlation_id, created_at)
        SELECT %(id)s, tenant_id, id, owner_user_id, client_user_id, id, created_at FROM appointments;
        INSERT INTO calendar_feeds (id, user_id, tenant_id, token_hash, shows_owned, created_at)
        VALUES (%(id)s, %(id)s, NULL, 'one', false, %(now)s);
        INSERT INTO idempotency_keys (id, user_id, route, key, request_hash, status, body, etag, created_at)
        VALUES (%(id)s, %(id)s, 'book', 'k', 'h', 201, '{}', '', %(now)s);
        INSERT INTO outbox_parked (id, topic, key, parked_at) SELECT id, topic, key, %(now)s FROM outbox_messages;
        INSERT INTO outbox_blocked_keys (topic, key, shard, reason, error, attempt_count, blocked_at, next_attempt_at)
        SELECT topic, key, 0, 'r', 'e', 1, %(now)s, %(now)s FROM outbox_messages
        """,
        {"id": TENANT, "now": NOON},
    )


def constraints(*kinds: str) -> list[tuple[str, str, list[str]]]:
    """Name, table and columns of our tables' constraints of these kinds."""
    return [
        (name, table, columns)
        for name, table, kind, columns in sql.fetch(_CONSTRAINTS, [state.tables()])
        if kind in kinds
    ]


def refusal(statement: str, params: dict[str, Any]) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        sql.execute(f"SET CONSTRAINTS ALL IMMEDIATE; {statement}", params)
    return caught.value


def test_every_constraint_of_the_database_has_a_case_here() -> None:
    named = {name for name, _, _ in constraints("c", "u", "x")}
    named |= {name for (name,) in sql.fetch(_UNIQUE_INDEXES, [state.tables()])}

    assert named == set(BREAKS)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(("name", "statement"), [*BREAKS.items(), *ALSO])
def test_the_database_refuses_and_names_the_constraint(name: str, statement: str) -> None:
    assert constraint_name(refusal(statement, {"id": new_id()})) == name


@pytest.mark.usefixtures("world")
def test_no_required_column_can_be_null() -> None:
    """NOT NULL has its constraint in the catalogue from PostgreSQL 18 on; the columns tell it on every version."""
    columns = sql.fetch(
        """
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name = ANY(%s) AND is_nullable = 'NO'
        """,
        [state.tables()],
    )
    assert {table for table, _ in columns} == set(state.tables())

    for table, column in columns:
        error = refusal(f'UPDATE {table} SET "{column}" = NULL', {})
        assert sqlstate(error) == "23502", (table, column)


@pytest.mark.usefixtures("world")
def test_no_key_is_given_twice() -> None:
    keys = constraints("p")
    assert {table for _, table, _ in keys} == set(state.tables())

    for name, table, _ in keys:
        again = refusal(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {table}", {})
        assert (sqlstate(again), constraint_name(again)) == ("23505", name)


@pytest.mark.usefixtures("world")
def test_a_row_that_is_pointed_at_must_exist() -> None:
    pointing = constraints("f")
    assert len(pointing) >= 4

    for name, table, [column] in pointing:
        row = f"SELECT id FROM {table} LIMIT 1"
        error = refusal(f"UPDATE {table} SET {column} = %(id)s WHERE id = ({row})", {"id": new_id()})
        assert constraint_name(error) == name


@pytest.mark.usefixtures("world")
def test_back_to_back_slots_and_dead_ones_may_touch_and_overlap() -> None:
    sql.execute(
        """
        UPDATE availability_slots SET status = 'Withdrawn' WHERE status = 'Available';
        UPDATE availability_slots SET start_at = start_at - interval '30 minutes' WHERE status = 'Withdrawn'
        """
    )

    assert sql.fetch("SELECT count(*) FROM availability_slots") == [(2,)]


@pytest.mark.usefixtures("world")
def test_an_event_of_no_length_and_no_reminders_is_allowed() -> None:
    assert sql.execute("UPDATE calendar_events SET end_at = start_at, reminder_offsets_minutes = '{}'") == 3
