"""The rules that the whole stored state must obey, one set-based query each (run by `ops.proof`).

A query gives (id, fault) a row that it judges; fault is NULL where all is well. Payloads are read by a function in
FROM, so that each is parsed once and by all parallel workers. A query may use `%(as_of)s` and
`%(told_from)s`: the instant from which every message is still in the outbox. Appointments without a booking line in
the audit log were written past the use cases (imported): they are judged by what has happened to them since.
"""

from dataclasses import dataclass

from appointments.models import LIVE
from contracts.calendar import AppointmentCancelled, AppointmentCompleted, EventStatusChanged, ReminderDue
from ops import expectations as expect

_LIVE = expect.words(status.value for status in LIVE)
_TERMINAL = expect.words(expect.TERMINAL)
_LEAVES_BOOKED = expect.words(expect.LEAVES_BOOKED)
_GIVES_BACK = expect.words(expect.GIVES_BACK)
_TOPICS = expect.words(expect.TOPICS)
_BOOKABLE_UNTIL = "slot.start_at - make_interval(mins => slot.min_lead_time_minutes)"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule; a `warns_only` one tells of work that is late, not of a state that must never be."""

    name: str
    meaning: str
    sql: str
    warns_only: bool = False


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "INV-SLT-3",
        "a Booked slot is held by exactly one appointment, any other slot by none",
        f"""
        SELECT slot.id, CASE
            WHEN holder.live > 1 THEN holder.live || ' live appointments'
            WHEN slot.status = 'Booked' AND holder.holding IS DISTINCT FROM 1
                THEN 'Booked, and held by ' || coalesce(holder.holding, 0) || ' appointments'
            WHEN slot.status <> 'Booked' AND holder.holding > 0
                THEN slot.status || ', and held by ' || holder.holding || ' appointments' END AS fault
        FROM availability_slots AS slot
        LEFT JOIN (SELECT slot_id, count(*) AS holding, count(*) FILTER (WHERE status IN ({_LIVE})) AS live
                   FROM appointments WHERE status IN ({_LEAVES_BOOKED}) GROUP BY slot_id) AS holder
               ON holder.slot_id = slot.id
        """,
    ),
    Invariant(
        "INV-SLT-5 given back",
        "an appointment that gave its slot back holds no Booked slot",
        f"""
        SELECT appointment.id,
               CASE WHEN slot.status = 'Booked' AND holder.slot_id IS NULL
                    THEN appointment.status || ', and its slot is Booked by nobody else' END AS fault
        FROM appointments AS appointment
        JOIN availability_slots AS slot ON slot.id = appointment.slot_id
        LEFT JOIN (SELECT DISTINCT slot_id FROM appointments WHERE status IN ({_LEAVES_BOOKED})) AS holder
               ON holder.slot_id = slot.id
        WHERE appointment.status IN ({_GIVES_BACK})
        """,
    ),
    Invariant(
        "INV-SLT-5 release rule",
        "a slot left Booked to Available while it could still be booked, else to Expired, and Expired it stays",
        f"""
        SELECT slot.id, CASE
            WHEN line.to_status NOT IN ('Available', 'Expired') THEN 'left Booked to ' || line.to_status
            WHEN line.to_status = 'Expired' AND slot.status <> 'Expired' THEN slot.status || ' after Expired'
            WHEN line.to_status = 'Expired' AND line.occurred_at <= {_BOOKABLE_UNTIL} THEN 'Expired while bookable'
            WHEN line.to_status = 'Available' AND line.occurred_at = slot.updated_at
                 AND line.occurred_at > {_BOOKABLE_UNTIL} THEN 'Available though past its lead time' END AS fault
        FROM audit_log AS line
        JOIN availability_slots AS slot ON slot.id = line.aggregate_id
        WHERE line.aggregate = 'Slot' AND line.from_status = 'Booked' AND line.to_status <> 'Booked'
        """,
    ),
    Invariant(
        "INV-APT-6 state",
        "an appointment's event has the status that the matrix says, and the texts agree",
        f"""
        SELECT appointment.id, CASE
            WHEN event.status <> expected.event_status
                THEN appointment.status || ', and event ' || event.id || ' is ' || event.status
            WHEN event.status = 'Cancelled' AND event.cancel_reason = '' THEN 'its event was cancelled without a reason'
            WHEN appointment.cancel_reason
                 <> CASE WHEN appointment.status = 'Expired' THEN '' ELSE event.cancel_reason END
                THEN 'its cancel_reason differs from its event''s' END AS fault
        FROM appointments AS appointment
        JOIN calendar_events AS event ON event.id = appointment.calendar_event_id
        LEFT JOIN ({expect.relation(expect.EVENT_STATUSES)}) AS expected (status, event_status)
               ON expected.status = appointment.status
        """,
    ),
    Invariant(
        "INV-APT-6 reminders",
        "no event that is over for the calendar, of whatever origin, has a Pending reminder",
        """
        SELECT event.id,
               CASE WHEN pending.event_id IS NOT NULL THEN event.status || ', with Pending reminders' END AS fault
        FROM calendar_events AS event
        LEFT JOIN (SELECT DISTINCT event_id FROM event_reminders WHERE status = 'Pending') AS pending
               ON pending.event_id = event.id
        WHERE event.status <> 'Scheduled'
        """,
    ),
    Invariant(
        "INV-APT-6 history",
        "the audit log leads each appointment by rows of the matrix to its status, a version a transition",
        f"""
        SELECT appointment.id, CASE
            WHEN count(line.id) FILTER (WHERE known.verb IS NULL) > 0 THEN 'a transition that the matrix does not have'
            WHEN count(line.id) FILTER (WHERE line.from_status = '') > 1 THEN 'booked more than once'
            WHEN appointment.status IN ({_TERMINAL})
                 AND count(line.id) FILTER (WHERE line.to_status IN ({_TERMINAL})) <> 1
                THEN appointment.status || ', and ended '
                     || count(line.id) FILTER (WHERE line.to_status IN ({_TERMINAL})) || ' times'
            WHEN count(line.id) FILTER (WHERE line.to_status = appointment.status)
                 - count(line.id) FILTER (WHERE line.from_status = appointment.status)
                 NOT BETWEEN count(line.id) FILTER (WHERE line.from_status = '') AND 1
                THEN 'not led to ' || appointment.status
            WHEN count(line.id) FILTER (WHERE line.from_status <> '') <> appointment.version - 1
                THEN 'version ' || appointment.version || ' after '
                     || count(line.id) FILTER (WHERE line.from_status <> '') || ' transitions' END AS fault
        FROM appointments AS appointment
        LEFT JOIN audit_log AS line ON line.aggregate_id = appointment.id AND line.aggregate = 'Appointment'
        LEFT JOIN ({expect.relation(expect.TOLD_BY)}) AS known (verb, from_status, to_status)
               ON (known.verb, known.from_status, known.to_status) = (line.verb, line.from_status, line.to_status)
        GROUP BY appointment.id
        """,
    ),
    Invariant(
        "INV-APT-6 messages",
        "each transition of an appointment is told by exactly its messages of the matrix (its event's: INV-CAL-3 told)",
        f"""
        SELECT id, CASE WHEN sum(due) <> sum(told)
            THEN sum(told) || ' messages on ' || topic || ' for ' || sum(due) || ' transitions' END AS fault
        FROM (SELECT line.aggregate_id::text COLLATE "C" AS id, due.topic COLLATE "C", 1 AS due, 0 AS told
              FROM audit_log AS line
              JOIN ({expect.relation(expect.MESSAGES)}) AS due (verb, from_status, to_status, topic)
                ON (due.verb, due.from_status, due.to_status) = (line.verb, line.from_status, line.to_status)
              WHERE line.aggregate = 'Appointment' AND line.occurred_at >= %(told_from)s
              UNION ALL
              SELECT key, topic, 0, 1 FROM outbox_messages
              WHERE topic IN ({_TOPICS}) AND created_at >= %(told_from)s) AS step
        GROUP BY id, topic
        """,
    ),
    Invariant(
        "INV-APT-6 payloads",
        "the message that ended an appointment says what became of it and of its slot",
        f"""
        SELECT appointment.id, CASE
            WHEN (told."aggregateVersion", told."eventId", told."ownerUserId", told."clientUserId")
                 IS DISTINCT FROM (appointment.version::text, appointment.calendar_event_id::text,
                                   appointment.owner_user_id::text, appointment.client_user_id::text)
                THEN 'version, event or persons differ'
            WHEN message.topic = '{AppointmentCompleted.TOPIC}'
                THEN CASE WHEN told.outcome IS DISTINCT FROM appointment.status THEN 'outcome differs' END
            WHEN told."slotId" IS DISTINCT FROM appointment.slot_id::text THEN 'slotId differs'
            WHEN told.reason IS DISTINCT FROM CASE WHEN appointment.status = 'Cancelled'
                     THEN 'CancelledBy' || appointment.cancelled_by ELSE appointment.status END THEN 'reason differs'
            WHEN told."slotOutcome" IS DISTINCT FROM
                 CASE released.to_status WHEN 'Available' THEN 'Released' ELSE released.to_status END
                THEN 'slotOutcome differs from what the audit log has of the slot' END AS fault
        FROM outbox_messages AS message
        CROSS JOIN LATERAL jsonb_to_record(CASE WHEN message.payload IS JSON OBJECT THEN message.payload::jsonb END)
                           AS told ("aggregateVersion" text, "eventId" text, "ownerUserId" text, "clientUserId" text,
                                    outcome text, "slotId" text, reason text, "slotOutcome" text)
        JOIN appointments AS appointment ON appointment.id::text = message.key
        LEFT JOIN (SELECT aggregate_id, occurred_at, max(to_status) AS to_status FROM audit_log
                   WHERE aggregate = 'Slot' AND from_status = 'Booked' AND to_status <> 'Booked'
                   GROUP BY aggregate_id, occurred_at) AS released
               ON released.aggregate_id = appointment.slot_id AND released.occurred_at = appointment.updated_at
        WHERE message.topic IN ('{AppointmentCancelled.TOPIC}', '{AppointmentCompleted.TOPIC}')
        """,
    ),
    Invariant(
        "INV-APT-6 deadline",
        "a Pending appointment lapses no later than its slot can be booked",
        f"""
        SELECT appointment.id, CASE WHEN appointment.pending_expires_at > {_BOOKABLE_UNTIL}
            THEN 'pending_expires_at is after the slot''s lead time' END AS fault
        FROM appointments AS appointment
        JOIN availability_slots AS slot ON slot.id = appointment.slot_id
        WHERE appointment.status = 'Pending'
        """,
    ),
    Invariant(
        "INV-CAL-3",
        "an event of origin Appointment and its appointment name each other, the same people and times",
        f"""
        SELECT coalesce(event.id, appointment.calendar_event_id) AS id, CASE
            WHEN event.id IS NULL THEN 'appointment ' || appointment.id || ' has an event of another origin'
            WHEN appointment.id IS NULL THEN 'no appointment has this event'
            WHEN event.source_id <> appointment.id THEN 'source_id is not appointment ' || appointment.id
            WHEN (event.tenant_id, event.owner_user_id, event.client_user_id)
                 IS DISTINCT FROM (appointment.tenant_id, appointment.owner_user_id, appointment.client_user_id)
                THEN 'tenant, owner or client differ from the appointment''s'
            WHEN appointment.tenant_id <> slot.tenant_id THEN 'the appointment''s tenant is not its slot''s'
            WHEN appointment.status IN ({_LEAVES_BOOKED}) AND slot.owner_user_id <> appointment.owner_user_id
                THEN 'the appointment''s owner is not its slot''s'
            WHEN appointment.status IN ({_LEAVES_BOOKED}) AND (event.start_at, event.end_at, event.time_zone)
                 IS DISTINCT FROM (slot.start_at, slot.end_at, slot.time_zone)
                THEN 'the times differ from the slot''s' END AS fault
        FROM (SELECT * FROM calendar_events WHERE origin = 'Appointment') AS event
        FULL JOIN appointments AS appointment ON appointment.calendar_event_id = event.id
        LEFT JOIN availability_slots AS slot ON slot.id = appointment.slot_id
        """,
    ),
    Invariant(
        "INV-CAL-3 told",
        "the end of an event, of whatever origin, has one audit line and one message that agree with it",
        f"""
        SELECT coalesce(event.id::text, told.key) AS id, CASE
            WHEN event.id IS NULL THEN 'told, and there is no such event'
            WHEN event.status <> 'Scheduled' AND ending.n IS DISTINCT FROM 1
                THEN event.status || ' by ' || coalesce(ending.n, 0) || ' audit lines'
            WHEN event.status = 'Scheduled' AND ending.n > 0 THEN 'Scheduled after its end'
            WHEN ending.to_status <> event.status THEN event.status || ', and the audit log has ' || ending.to_status
            WHEN ending.occurred_at >= %(told_from)s AND told.n IS DISTINCT FROM 1
                THEN 'its end is told by ' || coalesce(told.n, 0) || ' messages'
            WHEN ending.n IS NULL AND told.n > 0 THEN 'an end is told that was not'
            WHEN told.status IS DISTINCT FROM event.status AND told.n > 0
                THEN 'its message says ' || coalesce(told.status, 'nothing') END AS fault
        FROM calendar_events AS event
        LEFT JOIN (SELECT aggregate_id, count(*) AS n, max(to_status) AS to_status, max(occurred_at) AS occurred_at
                   FROM audit_log WHERE aggregate = 'Event' AND from_status NOT IN ('', to_status)
                   GROUP BY aggregate_id) AS ending ON ending.aggregate_id = event.id
        FULL JOIN (SELECT message.key, count(*) AS n, max(body.status) AS status
                   FROM outbox_messages AS message
                   CROSS JOIN LATERAL jsonb_to_record(CASE WHEN payload IS JSON OBJECT THEN payload::jsonb END)
                                      AS body (status text)
                   WHERE message.topic = '{EventStatusChanged.TOPIC}' GROUP BY message.key) AS told
               ON told.key = event.id::text
        """,
    ),
    Invariant(
        "INV-REM-1",
        "a Pending reminder is due its offset, one of its event's, before the start of its Scheduled event",
        """
        SELECT reminder.id, CASE
            WHEN reminder.due_at <> event.start_at - make_interval(mins => reminder.offset_minutes)
                THEN 'due_at is not start_at - offset'
            WHEN reminder.offset_minutes <> ALL (event.reminder_offsets_minutes) THEN 'its event has no such offset'
            END AS fault
        FROM event_reminders AS reminder
        JOIN calendar_events AS event ON event.id = reminder.event_id
        WHERE reminder.status = 'Pending'
        """,
    ),
    Invariant(
        "INV-REM-1 complete",
        "a Scheduled event has a reminder, in whatever state, for each of its offsets from its present start",
        """
        SELECT event.id, CASE
            WHEN count(DISTINCT reminder.offset_minutes) <> cardinality(event.reminder_offsets_minutes) THEN
                count(DISTINCT reminder.offset_minutes) || ' reminders for '
                 || cardinality(event.reminder_offsets_minutes) || ' offsets' END AS fault
        FROM calendar_events AS event
        LEFT JOIN event_reminders AS reminder
               ON reminder.event_id = event.id AND reminder.offset_minutes = ANY (event.reminder_offsets_minutes)
              AND reminder.due_at = event.start_at - make_interval(mins => reminder.offset_minutes)
        WHERE event.status = 'Scheduled'
        GROUP BY event.id
        """,
    ),
    Invariant(
        "INV-REM-2",
        "a Sent reminder is told by exactly one reminder-due, after it was due; any other by none",
        f"""
        SELECT coalesce(reminder.id::text, told.reminder_id) AS id, CASE
            WHEN reminder.id IS NULL THEN 'told, and there is no such reminder'
            WHEN reminder.status <> 'Sent' AND told.n > 0 THEN reminder.status || ', and told'
            WHEN reminder.sent_at < reminder.due_at THEN 'Sent before it was due'
            WHEN told.n > 1 THEN 'told ' || told.n || ' times'
            WHEN told.n IS NULL AND reminder.sent_at >= %(told_from)s THEN 'Sent, and not told'
            WHEN told.key <> reminder.event_id::text THEN 'told of another event' END AS fault
        FROM event_reminders AS reminder
        FULL JOIN (SELECT CASE WHEN payload IS JSON OBJECT THEN payload::jsonb ->> 'reminderId' END AS reminder_id,
                          max(key) AS key, count(*) AS n
                   FROM outbox_messages WHERE topic = '{ReminderDue.TOPIC}' GROUP BY 1) AS told
               ON told.reminder_id = reminder.id::text
        """,
    ),
    Invariant(
        "OUTBOX queue",
        "what is to be published or parked is a message that exists, and is one of the two",
        """
        SELECT waiting.id::text AS id, CASE
            WHEN message.id IS NULL THEN 'the message is gone'
            WHEN count(*) > 1 THEN 'waiting in several places' END AS fault
        FROM (SELECT id FROM outbox_ready UNION ALL SELECT id FROM outbox_parked) AS waiting
        LEFT JOIN outbox_messages AS message ON message.id = waiting.id
        GROUP BY waiting.id, message.id
        """,
    ),
    Invariant(
        "OUTBOX order",
        "the messages of an appointment are written in the order of its versions, up to the present one",
        f"""
        SELECT coalesce(appointment.id::text, told.key) AS id, CASE
            WHEN told.falls > 0 THEN 'a message is behind one of a later version'
            WHEN told.is_first_known AND told.versions <> told.last THEN 'a version is not told of'
            WHEN appointment.version <> told.last
                THEN 'version ' || appointment.version || ', and told up to ' || coalesce(told.last::text, 'none')
            END AS fault
        FROM (SELECT key, max(version) AS last, count(DISTINCT version) AS versions, min(version) = 1 AS is_first_known,
                     count(*) FILTER (WHERE version < previous) AS falls
              FROM (SELECT key, version, lag(version) OVER (PARTITION BY key ORDER BY id) AS previous
                    FROM (SELECT id, key COLLATE "C", body."aggregateVersion" AS version FROM outbox_messages
                          CROSS JOIN LATERAL jsonb_to_record(CASE WHEN payload IS JSON OBJECT THEN payload::jsonb END)
                                             AS body ("aggregateVersion" int)
                          WHERE topic IN ({_TOPICS}) AND created_at >= %(told_from)s) AS message) AS step
              GROUP BY key) AS told
        JOIN appointments AS appointment ON appointment.id::text = told.key
        """,
    ),
    Invariant(
        "VERSIONS",
        "a slot or event has a version of at least 1, and one more for each change in the audit log",
        """
        SELECT aggregate.id, CASE WHEN aggregate.version < 1 + coalesce(change.n, 0)
            THEN aggregate.kind || ' of version ' || aggregate.version || ' after '
                 || coalesce(change.n, 0) || ' changes' END AS fault
        FROM (SELECT id, version, 'slot' AS kind FROM availability_slots
              UNION ALL SELECT id, version, 'event' FROM calendar_events) AS aggregate
        LEFT JOIN (SELECT aggregate_id, count(*) AS n FROM audit_log
                   WHERE aggregate <> 'Appointment' AND from_status <> '' GROUP BY aggregate_id) AS change
               ON change.aggregate_id = aggregate.id
        """,
    ),
    Invariant(
        "late appointments",
        "no Pending appointment is more than 10 minutes past its deadline: is the timeout worker alive?",
        """
        SELECT id, CASE WHEN pending_expires_at < %(as_of)s - interval '10 minutes' THEN 'not expired' END AS fault
        FROM appointments WHERE status = 'Pending'
        """,
        warns_only=True,
    ),
    Invariant(
        "late reminders",
        "no Pending reminder is more than 10 minutes past its time: is the dispatcher alive?",
        """
        SELECT id, CASE WHEN due_at < %(as_of)s - interval '10 minutes' THEN 'not sent' END AS fault
        FROM event_reminders WHERE status = 'Pending'
        """,
        warns_only=True,
    ),
    Invariant(
        "not booked",
        "every appointment has a booking line in the audit log, unless it was imported",
        """
        SELECT appointment.id, CASE WHEN booking.aggregate_id IS NULL THEN 'no booking line' END AS fault
        FROM appointments AS appointment
        LEFT JOIN (SELECT DISTINCT aggregate_id FROM audit_log
                   WHERE aggregate = 'Appointment' AND from_status = '') AS booking
               ON booking.aggregate_id = appointment.id
        """,
        warns_only=True,
    ),
)
