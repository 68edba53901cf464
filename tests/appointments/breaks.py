"""Statements that break the constraints of the database, over the `world` of the tests that run them."""

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
        INSERT INTO reassignment_conflicts SELECT (jsonb_populate_record(reassignment_conflicts, jsonb_build_object(
            'id', %(id)s))).* FROM reassignment_conflicts""",
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
    # idempotency_keys
    "uq_idempotency_keys_user_route_key": """
        INSERT INTO idempotency_keys SELECT (jsonb_populate_record(idempotency_keys, jsonb_build_object(
            'id', %(id)s))).* FROM idempotency_keys""",
    # recipients, deliveries
    "ck_recipients_locale": "UPDATE recipients SET locale = 'de'",
    "ck_recipients_channels": "UPDATE recipients SET channels = '{email,pigeon}'",
    "uq_deliveries_fact_recipient_channel": """
        INSERT INTO deliveries SELECT (jsonb_populate_record(deliveries, jsonb_build_object(
            'id', %(id)s, 'message_id', %(id)s))).* FROM deliveries""",
    "ck_deliveries_status": "UPDATE deliveries SET status = 'lost'",
    "ck_deliveries_kind": "UPDATE deliveries SET kind = 'Lost'",
    "ck_deliveries_role": "UPDATE deliveries SET role = 'nobody'",
    "ck_deliveries_sent_at_exactly_when_sent": "UPDATE deliveries SET status = 'sent'",
    "ck_deliveries_sent_through_a_channel": "UPDATE deliveries SET channel = ''",
    # crm_deadlines, crm_assignee_changes, lead_feed_entries
    "uq_crm_deadlines_tenant_booking": """
        INSERT INTO crm_deadlines SELECT (jsonb_populate_record(crm_deadlines, jsonb_build_object(
            'id', %(id)s, 'revision', 2))).* FROM crm_deadlines""",
    "ck_crm_deadlines_state": "UPDATE crm_deadlines SET state = 'Lost'",
    "ck_crm_deadlines_revision": "UPDATE crm_deadlines SET revision = 0",
    "uq_crm_assignee_changes_tenant_revision": """
        INSERT INTO crm_assignee_changes SELECT (jsonb_populate_record(crm_assignee_changes, jsonb_build_object(
            'id', %(id)s))).* FROM crm_assignee_changes""",
    "ck_crm_assignee_changes_revision": "UPDATE crm_assignee_changes SET revision = 0",
    "uq_lead_feed_entries_fact": """
        INSERT INTO lead_feed_entries SELECT (jsonb_populate_record(lead_feed_entries, jsonb_build_object(
            'id', %(id)s))).* FROM lead_feed_entries""",
    "ck_lead_feed_entries_event": "UPDATE lead_feed_entries SET event = 'Lost'",
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
    ("ck_appointments_readable_instants", "UPDATE appointments SET created_at = 'infinity'"),
    ("ck_availability_slots_readable_instants", "UPDATE availability_slots SET start_at = '-infinity'"),
    ("ck_calendar_events_readable_instants", "UPDATE calendar_events SET start_at = '-infinity'"),
    ("ck_event_reminders_sent_at_exactly_when_sent", "UPDATE event_reminders SET sent_at = due_at"),
    ("ck_deliveries_sent_at_exactly_when_sent", "UPDATE deliveries SET sent_at = created_at"),
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
