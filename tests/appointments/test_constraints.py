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
from tests.appointments import state
from tests.factories import NOON, TENANT, AppointmentFactory, EventFactory, SlotFactory, an_overdue_appointment
from tests.outbox.messages import a_change

pytestmark = pytest.mark.django_db

# Statements over the `world` below.
BREAKS = {
    # appointments
    "uq_appointments_inv_slt_3_one_live_a_slot": """
        INSERT INTO appointments SELECT (jsonb_populate_record(appointments, jsonb_build_object(
            'id', %(id)s, 'calendar_event_id', (SELECT id FROM calendar_events WHERE origin = 'Manual'),
            'status', 'Confirmed'))).* FROM appointments""",
    "appointments_calendar_event_id_key": """
        INSERT INTO appointments SELECT (jsonb_populate_record(appointments, jsonb_build_object(
            'id', %(id)s, 'status', 'Expired'))).* FROM appointments""",
    "ck_appointments_status": "UPDATE appointments SET status = 'Lost'",
    "ck_appointments_pending_has_deadline": "UPDATE appointments SET pending_expires_at = NULL",
    "ck_appointments_cancelled_by_exactly_when_cancelled": "UPDATE appointments SET status = 'Cancelled'",
    "uq_reassignment_conflicts_one_open_a_pair": """
        INSERT INTO reassignment_conflicts (id, tenant_id, appointment_id, from_owner_user_id, to_owner_user_id,
            correlation_id, created_at)
        SELECT v.id, a.tenant_id, a.id, a.owner_user_id, a.client_user_id, a.id, now() FROM appointments AS a,
            (VALUES (uuidv7()), (uuidv7())) AS v(id)""",
    "uq_calendar_feeds_one_a_person_and_tenant": """
        INSERT INTO calendar_feeds SELECT (jsonb_populate_record(calendar_feeds, jsonb_build_object(
            'id', %(id)s, 'token_hash', 'another'))).* FROM calendar_feeds""",
    "uq_calendar_feeds_token_hash": """
        INSERT INTO calendar_feeds SELECT (jsonb_populate_record(calendar_feeds, jsonb_build_object(
            'id', %(id)s, 'user_id', %(id)s))).* FROM calendar_feeds""",
    "ck_appointments_readable_instants": "UPDATE appointments SET pending_expires_at = '-infinity'",
    "ck_availability_slots_readable_instants": "UPDATE availability_slots SET end_at = 'infinity'",
    "ck_calendar_events_readable_instants": "UPDATE calendar_events SET end_at = '10000-01-01 00:00+00'",
    "ck_event_reminders_readable_instants": "UPDATE event_reminders SET due_at = '-infinity'",
    "ck_appointments_version": "UPDATE appointments SET version = 0",
    # availability_slots
    "ck_availability_slots_end_after_start": "UPDATE availability_slots SET end_at = start_at",
    "ck_availability_slots_min_lead_time_minutes": "UPDATE availability_slots SET min_lead_time_minutes = -1",
    "ck_availability_slots_status": "UPDATE availability_slots SET status = 'Lost'",
    "ck_availability_slots_version": "UPDATE availability_slots SET version = 0",
    "ex_availability_slots_owner_live_overlap": """
        UPDATE availability_slots SET start_at = start_at - interval '1 microsecond' WHERE status = 'Available'""",
    # calendar_events
    "ck_calendar_events_end_not_before_start": """
        UPDATE calendar_events SET end_at = start_at - interval '1 microsecond'""",
    "ck_calendar_events_origin": "UPDATE calendar_events SET origin = 'Lost'",
    "ck_calendar_events_reminder_offsets_minutes": """
        UPDATE calendar_events SET reminder_offsets_minutes = '{60,60}'""",
    "ck_calendar_events_source_id": "UPDATE calendar_events SET source_id = NULL WHERE origin = 'Appointment'",
    "ck_calendar_events_status": "UPDATE calendar_events SET status = 'Lost'",
    "ck_calendar_events_version": "UPDATE calendar_events SET version = 0",
    "uq_calendar_events_one_scheduled_a_source": """
        INSERT INTO calendar_events SELECT (jsonb_populate_record(calendar_events, jsonb_build_object(
            'id', %(id)s))).* FROM calendar_events WHERE origin = 'Appointment'""",
    # event_reminders
    "uq_event_reminders_one_pending_an_offset": """
        UPDATE event_reminders SET offset_minutes = 60""",
    "ck_event_reminders_offset_minutes": "UPDATE event_reminders SET offset_minutes = 40321",
    "ck_event_reminders_status": "UPDATE event_reminders SET status = 'Lost'",
    "ck_event_reminders_sent_at_exactly_when_sent": "UPDATE event_reminders SET status = 'Sent'",
    "ck_event_reminders_skip_reason_exactly_when_skipped": "UPDATE event_reminders SET status = 'Skipped'",
    # audit_log, job_runs, processed_messages
    "ck_audit_log_actor_kind": "UPDATE audit_log SET actor_kind = 'Nobody'",
    "ck_audit_log_aggregate": "UPDATE audit_log SET aggregate = 'Nothing'",
    "ck_job_runs_outcome": "UPDATE job_runs SET outcome = 'Lost'",
    "uq_processed_messages_consumer_message_id": """
        INSERT INTO processed_messages (consumer, message_id, processed_at)
        SELECT consumer, message_id, processed_at FROM processed_messages""",
    # outbox
    "ck_outbox_ready_shard": "UPDATE outbox_ready SET shard = 8",
    "uq_outbox_messages_message_id": """
        INSERT INTO outbox_messages SELECT (jsonb_populate_record(outbox_messages, jsonb_build_object(
            'id', 0, 'dedup_key', 'another'))).* FROM outbox_messages""",
    "uq_outbox_messages_told_once": """
        INSERT INTO outbox_messages SELECT (jsonb_populate_record(outbox_messages, jsonb_build_object(
            'id', 0, 'message_id', %(id)s))).* FROM outbox_messages""",
}

# Further ways to break the same constraints.
ALSO = [
    ("ck_appointments_cancelled_by_exactly_when_cancelled", "UPDATE appointments SET cancelled_by = 'Client'"),
    (
        "ck_appointments_cancelled_by_exactly_when_cancelled",
        "UPDATE appointments SET status = 'Cancelled', cancelled_by = 'Nobody'",
    ),
    ("ck_event_reminders_sent_at_exactly_when_sent", "UPDATE event_reminders SET sent_at = due_at"),
    ("ck_event_reminders_skip_reason_exactly_when_skipped", "UPDATE event_reminders SET skip_reason = 'past'"),
    (
        "ck_event_reminders_skip_reason_exactly_when_skipped",
        "UPDATE event_reminders SET status = 'Skipped', skip_reason = 'lost'",
    ),
    ("ck_event_reminders_offset_minutes", "UPDATE event_reminders SET offset_minutes = -1"),
    ("ck_outbox_ready_shard", "UPDATE outbox_ready SET shard = -1"),
    *(
        (
            "ck_calendar_events_reminder_offsets_minutes",
            f"UPDATE calendar_events SET reminder_offsets_minutes = '{offsets}'",
        )
        for offsets in ("{1,2,3,4,5,6,7,8,9}", "{-1}", "{40321}", "{NULL}", "{60,NULL}", "{{60,30},{20,10}}")
    ),
]

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
    the Booked one; a row in each other table that has a case above.
    """
    appointment = an_overdue_appointment()
    EventFactory.create(owner_user_id=appointment.owner_user_id)
    SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=appointment.slot.end_at)
    publish([a_change()], as_of=NOON)
    sql.execute(
        """
        INSERT INTO audit_log (id, tenant_id, aggregate, aggregate_id, verb, from_status, to_status, actor_kind,
                               correlation_id, occurred_at)
        VALUES (%(id)s, %(id)s, 'Slot', %(id)s, 'book', 'Available', 'Booked', 'User', %(id)s, %(now)s);
        INSERT INTO job_runs (id, job, instance, as_of, started_at, duration_ms, outcome, counts, error)
        VALUES (%(id)s, 'fake', 'here:1', %(now)s, %(now)s, 1, 'Succeeded', '{}', '');
        INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES ('fake', %(id)s, %(now)s);
        INSERT INTO calendar_feeds (id, user_id, tenant_id, token_hash, shows_owned, created_at)
        VALUES (%(id)s, %(id)s, NULL, 'one', false, %(now)s)
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
        [[table for table, _ in state.everything()]],
    )
    assert ("appointments", "slot_id") in columns

    for table, column in columns:
        error = refusal(f'UPDATE {table} SET "{column}" = NULL', {})
        assert sqlstate(error) == "23502", (table, column)


@pytest.mark.usefixtures("world")
def test_a_row_that_is_pointed_at_must_exist() -> None:
    AppointmentFactory.create()
    sql.execute(
        """
        INSERT INTO reassignment_conflicts (id, tenant_id, appointment_id, from_owner_user_id, to_owner_user_id,
                                            correlation_id, created_at)
        SELECT %(id)s, tenant_id, id, owner_user_id, client_user_id, id, created_at FROM appointments LIMIT 1
        """,
        {"id": new_id()},
    )
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
    assert sql.execute("UPDATE calendar_events SET end_at = start_at, reminder_offsets_minutes = '{}'") == 2
