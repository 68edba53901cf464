"""Expiring requests as SQL written by hand: no module of ours is needed, so the peers' projects read it as well."""

_FIND = """
WITH due AS MATERIALIZED (
    SELECT a.id, a.tenant_id, a.slot_id, a.calendar_event_id, a.owner_user_id, a.client_user_id, a.version,
           a.tenant_id::text AS tenant, a.id::text AS appointment, a.calendar_event_id::text AS event,
           slot.start_at, slot.time_zone, e.version AS event_version, e.start_at AS event_start_at,
           e.time_zone AS event_time_zone,
           CASE WHEN %(as_of)s <= slot.start_at - slot.min_lead_time_minutes * interval '1 minute'
                THEN 'Available' ELSE 'Expired' END AS slot_status
    FROM appointments AS a JOIN availability_slots AS slot ON slot.id = a.slot_id
    JOIN calendar_events AS e ON e.id = a.calendar_event_id
    WHERE a.status = 'Pending' AND a.pending_expires_at < %(as_of)s AND slot.status = 'Booked'
      AND e.status = 'Scheduled'
"""
_CHANGE = """
    FOR NO KEY UPDATE OF a, slot, e SKIP LOCKED
), expired AS (
    UPDATE appointments AS a SET status = 'Expired', cancelled_by = NULL, cancel_reason = '', version = a.version + 1,
           updated_at = %(as_of)s FROM due WHERE a.id = due.id
), released AS (
    UPDATE availability_slots AS slot SET status = due.slot_status, version = slot.version + 1, updated_at = %(as_of)s
    FROM due WHERE slot.id = due.slot_id
), cancelled AS (
    UPDATE calendar_events AS e SET status = 'Cancelled', cancel_reason = 'Запись не подтверждена агентом в срок',
           version = e.version + 1, updated_at = %(as_of)s FROM due WHERE e.id = due.calendar_event_id
), silenced AS (
    UPDATE event_reminders AS r SET status = 'Skipped', skip_reason = 'event_cancelled', updated_at = %(as_of)s
    FROM due WHERE r.event_id = due.calendar_event_id AND r.status = 'Pending'
), noted AS (
    INSERT INTO audit_log (id, tenant_id, aggregate, aggregate_id, verb, from_status, to_status, actor_kind,
                           correlation_id, occurred_at)
    SELECT uuidv7(), tenant_id, line.aggregate, line.id, 'expire', line.from_status, line.to_status, 'System',
           %(run)s, %(as_of)s
    FROM due CROSS JOIN LATERAL (VALUES
        ('Appointment', due.id, 'Pending', 'Expired'), ('Slot', slot_id, 'Booked', slot_status),
        ('Event', calendar_event_id, 'Scheduled', 'Cancelled')) AS line(aggregate, id, from_status, to_status)
), rows AS MATERIALIZED (
    SELECT uuidv7() AS message_id, tenant_id, tenant, message.* FROM due CROSS JOIN LATERAL (VALUES
        ('pin.calendar.appointment-cancelled.v1', appointment, 'pin.calendar.appointment-cancelled.v1:' || appointment,
         format('{"contractVersion":1,"tenantId":"%%s","occurredAt":"%%s","aggregateVersion":%%s,"appointmentId":"%%s",'
                '"eventId":"%%s","ownerUserId":"%%s","clientUserId":"%%s","slotId":"%%s","startAt":"%%s",'
                '"timeZone":"%%s","reason":"Expired","slotOutcome":"%%s"}', tenant, %(now)s::text, version + 1,
                appointment, event, owner_user_id, client_user_id, slot_id,
                to_char(start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), time_zone,
                CASE slot_status WHEN 'Available' THEN 'Released' ELSE 'Expired' END)),
        ('pin.calendar.event-status-changed.v1', event,
         'pin.calendar.event-status-changed.v1:' || event || ':' || event_version + 1,
         format('{"contractVersion":1,"tenantId":"%%s","occurredAt":"%%s","aggregateVersion":%%s,"eventId":"%%s",'
                '"ownerUserId":"%%s","clientUserId":"%%s","origin":"Appointment","appointmentId":"%%s",'
                '"previousStatus":"Scheduled","status":"Cancelled","startAt":"%%s","timeZone":"%%s",'
                '"reason":"Expired"}', tenant, %(now)s::text, event_version + 1, event, owner_user_id, client_user_id,
                appointment, to_char(event_start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                event_time_zone))
    ) AS message(topic, key, dedup_key, payload)
), told AS (
    INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers, tenant_id,
                                 correlation_id, created_at)
    SELECT message_id, dedup_key, topic, key, 1, payload,
           format('{"ce_specversion":"1.0","ce_id":"%%s","ce_type":"%%s","ce_source":"/pin/calendar","ce_time":"%%s",'
                  '"ce_subject":"%%s","content-type":"application/json","ce_correlationid":"%%s","ce_tenantid":"%%s"}',
                  message_id, topic, %(now)s::text, key, %(run)s::text, tenant),
           tenant_id, %(run)s, %(as_of)s FROM rows
    RETURNING id, message_id
)
INSERT INTO outbox_ready (shard, id)
SELECT crc32(convert_to(rows.key, 'UTF8')) %% 8, told.id FROM told JOIN rows USING (message_id)
"""

OVERDUE = f"{_FIND} ORDER BY a.pending_expires_at, a.id LIMIT %(limit)s {_CHANGE}"
"""The bound: what PostgreSQL needs for a chunk of the work itself, with next to nothing of ours around it."""

_NUMBERED = {"id": "$1::uuid", "as_of": "$2::timestamptz", "now": "$3::text", "run": "$4::uuid"}
ONE = f"{_FIND} AND a.id = %(id)s {_CHANGE}" % _NUMBERED
"""The same for one request, as a job of a queue does it: its id, the instant, that as in JSON, and the run."""
