"""Each broken rule of events, reminders and the outbox is found by its id."""

import pytest

from appointments.matrix import Verb
from core import sql
from core.ids import new_id
from tests.ops import lives
from tests.ops.breaking import change, faults, forget, without


@pytest.mark.django_db
class TestEvents:
    @pytest.mark.parametrize(
        "broken",
        [
            {"start_at": "start_at + interval '1 minute'"},
            {"time_zone": "'Europe/Riga'"},
            {"owner_user_id": "gen_random_uuid()"},
            {"client_user_id": "NULL"},
            {"source_id": "gen_random_uuid()"},
            {"origin": "'Manual'"},
        ],
    )
    def test_an_event_that_disagrees_with_its_appointment(self, broken):
        appointment = lives.a_request()
        change("calendar_events", appointment.calendar_event_id, **broken)

        assert faults("INV-CAL-3") == [str(appointment.calendar_event_id)]

    def test_a_slot_of_another_owner(self):
        appointment = lives.a_request()
        change("availability_slots", appointment.slot_id, owner_user_id="gen_random_uuid()")

        assert faults("INV-CAL-3") == [str(appointment.calendar_event_id)]

    def test_an_event_of_no_appointment(self):
        event_id = lives.a_request().calendar_event_id
        without("SET LOCAL session_replication_role = replica")
        forget("appointments", "calendar_event_id = %s", event_id)
        without("SET LOCAL session_replication_role = origin")

        assert faults("INV-CAL-3") == [str(event_id)]

    def test_an_end_that_the_audit_log_does_not_have(self):
        event_id = lives.decide(lives.a_request(), Verb.DECLINE).calendar_event_id
        forget("audit_log", "aggregate_id = %s AND verb = 'decline'", event_id)

        assert faults("INV-CAL-3 told") == [str(event_id)]

    def test_an_end_that_is_told_of_no_event(self):
        lives.decide(lives.a_request(), Verb.DECLINE)
        stranger = new_id()
        sql.execute("UPDATE outbox_messages SET key = %s WHERE topic LIKE '%%event-status-changed%%'", [stranger])

        assert str(stranger) in faults("INV-CAL-3 told")

    def test_an_end_that_is_told_as_another(self):
        event_id = lives.decide(lives.a_request(), Verb.DECLINE).calendar_event_id
        sql.execute("""UPDATE outbox_messages SET payload = replace(payload, '"Cancelled"', '"Completed"')""")

        assert faults("INV-CAL-3 told") == [str(event_id)]


@pytest.mark.django_db
class TestReminders:
    @pytest.mark.parametrize(
        "broken",
        [{"due_at": "due_at + interval '1 second'"}, {"offset_minutes": 61, "due_at": "due_at - interval '1 min'"}],
    )
    def test_a_pending_reminder_that_does_not_follow_its_event(self, broken):
        event_id = lives.a_request().calendar_event_id
        [(reminder,)] = sql.fetch(
            "SELECT id FROM event_reminders WHERE event_id = %s AND offset_minutes = 60", [event_id]
        )
        change("event_reminders", reminder, **broken)

        assert faults("INV-REM-1") == [str(reminder)]
        assert faults("INV-REM-1 complete") == [str(event_id)]

    def test_a_reminder_that_was_not_materialised(self):
        event_id = lives.a_request().calendar_event_id
        forget("event_reminders", "event_id = %s AND offset_minutes = 60", event_id)

        assert faults("INV-REM-1 complete") == [str(event_id)]

    def test_a_sent_reminder_that_is_not_told(self):
        reminder = lives.reminded()
        forget("outbox_messages", "topic = 'pin.calendar.reminder-due.v1'")

        assert faults("INV-REM-2") == [str(reminder.id)]

    def test_a_reminder_that_is_told_twice(self):
        reminder = lives.reminded()
        sql.execute(
            """
            INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers,
                                         tenant_id, correlation_id, created_at)
            SELECT gen_random_uuid(), dedup_key || ':again', topic, key, contract_version, payload, headers, tenant_id,
                   correlation_id, created_at
            FROM outbox_messages WHERE topic = 'pin.calendar.reminder-due.v1'
            """
        )

        assert faults("INV-REM-2") == [str(reminder.id)]

    @pytest.mark.parametrize(
        "broken",
        [
            {"status": "'Pending'", "sent_at": "NULL"},
            {"status": "'Skipped'", "sent_at": "NULL", "skip_reason": "'event_over'"},
            {"sent_at": "due_at - interval '1 second'"},
        ],
    )
    def test_a_reminder_that_is_told_and_was_not_sent(self, broken):
        reminder = lives.reminded()
        change("event_reminders", reminder.id, **broken)

        assert faults("INV-REM-2") == [str(reminder.id)]


@pytest.mark.django_db
class TestOutbox:
    def test_a_message_to_publish_that_is_gone(self):
        sql.execute("INSERT INTO outbox_ready (shard, id) VALUES (3, 4711)")

        assert faults("OUTBOX queue") == ["4711"]

    def test_a_message_that_waits_twice(self):
        lives.a_request()
        sql.execute("INSERT INTO outbox_parked (id, topic, key, parked_at) SELECT id, '', '', now() FROM outbox_ready")
        [(message,)] = sql.fetch("SELECT id FROM outbox_ready")

        assert faults("OUTBOX queue") == [str(message)]

    @pytest.mark.parametrize("version", [1, 3])
    def test_messages_that_disagree_with_the_versions(self, version):
        appointment = lives.decide(lives.a_request(), Verb.CONFIRM)
        sql.execute(
            "UPDATE outbox_messages SET payload = replace(payload, %s, %s)",
            ['"aggregateVersion":2', f'"aggregateVersion":{version}'],
        )

        assert faults("OUTBOX order") == [str(appointment.id)]

    def test_messages_that_are_out_of_order(self):
        appointment = lives.decide(lives.a_request(), Verb.CONFIRM)
        sql.execute("UPDATE outbox_messages SET id = -id")

        assert faults("OUTBOX order") == [str(appointment.id)]

    @pytest.mark.parametrize("table", ["availability_slots", "calendar_events"])
    def test_a_version_that_did_not_grow(self, table):
        appointment = lives.decide(lives.a_request(), Verb.DECLINE)
        id_ = appointment.slot_id if table == "availability_slots" else appointment.calendar_event_id
        change(table, id_, version=1)

        assert faults("VERSIONS") == [str(id_)]
