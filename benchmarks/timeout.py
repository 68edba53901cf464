"""Expiring requests: the worker against one hand-written statement, and against a plain loop over the ORM."""

import datetime
import json
from functools import partial
from io import StringIO
from uuid import UUID

from django.core.management import call_command
from django.db import transaction

from appointments.models import Appointment, AppointmentStatus
from appointments.timeout import TimeoutJob
from audit.models import AuditLine
from benchmarks import database, orm, rows
from benchmarks.runner import Contender, Report, Row, rates, ratio
from core import clock, logs, sql
from core.ids import new_id
from pin_calendar.models import EventStatus, SlotStatus
from reminders.models import ReminderStatus, SkipReason
from tests.bulk import overdue_appointments

log = logs.get(__name__)

CHUNK = 200
_SUBJECT = "timeout"

# The bound: what PostgreSQL needs for the work itself, with next to nothing of ours around it.
BY_HAND = """
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
    ORDER BY a.pending_expires_at, a.id LIMIT %(limit)s FOR NO KEY UPDATE OF a, slot, e SKIP LOCKED
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


def by_hand(*, as_of: datetime.datetime) -> int:
    """Chunk after chunk, a statement and a commit each."""
    params = {"as_of": as_of, "now": clock.iso(as_of), "limit": CHUNK, "run": new_id()}
    done = 0
    while written := sql.execute(BY_HAND, params):
        done += written // 2
    return done


def by_orm(*, as_of: datetime.datetime) -> int:
    """As it is written first: models, `.save()`, one transaction an item."""
    overdue = Appointment.objects.filter(status=AppointmentStatus.PENDING, pending_expires_at__lt=as_of)
    ids = list(overdue.order_by("pending_expires_at", "id").values_list("id", flat=True))
    run = new_id()
    for appointment_id in ids:
        _expire_by_orm(appointment_id, as_of=as_of, run=run)
    return len(ids)


@transaction.atomic
def _expire_by_orm(appointment_id: UUID, *, as_of: datetime.datetime, run: UUID) -> None:
    appointment = Appointment.objects.select_for_update(no_key=True).get(id=appointment_id)
    slot = type(appointment.slot).objects.select_for_update(no_key=True).get(id=appointment.slot_id)
    event = (
        type(appointment.calendar_event).objects.select_for_update(no_key=True).get(id=appointment.calendar_event_id)
    )
    is_released = as_of <= slot.start_at - datetime.timedelta(minutes=slot.min_lead_time_minutes)
    appointment.status, appointment.version, appointment.updated_at = AppointmentStatus.EXPIRED, 2, as_of
    appointment.save()
    slot.status = SlotStatus.AVAILABLE if is_released else SlotStatus.EXPIRED
    slot.version, slot.updated_at = slot.version + 1, as_of
    slot.save()
    event.status, event.cancel_reason = EventStatus.CANCELLED, "Запись не подтверждена агентом в срок"
    event.version, event.updated_at = event.version + 1, as_of
    event.save()
    for reminder in event.reminders.filter(status=ReminderStatus.PENDING):
        reminder.status, reminder.skip_reason, reminder.updated_at = (
            ReminderStatus.SKIPPED,
            SkipReason.EVENT_CANCELLED,
            as_of,
        )
        reminder.save()
    for aggregate, record, before in (
        ("Appointment", appointment, "Pending"),
        ("Slot", slot, "Booked"),
        ("Event", event, "Scheduled"),
    ):
        AuditLine.objects.create(
            tenant_id=record.tenant_id,
            aggregate=aggregate,
            aggregate_id=record.id,
            verb="expire",
            from_status=before,
            to_status=record.status,
            actor_kind="System",
            correlation_id=run,
            occurred_at=as_of,
        )
    about = {
        "contractVersion": 1,
        "tenantId": str(appointment.tenant_id),
        "occurredAt": clock.iso(as_of),
        "appointmentId": str(appointment.id),
        "eventId": str(event.id),
        "timeZone": event.time_zone,
        "ownerUserId": str(appointment.owner_user_id),
        "clientUserId": str(appointment.client_user_id),
        "startAt": clock.iso(event.start_at),
        "reason": "Expired",
    }
    cancelled = {
        **about,
        "aggregateVersion": appointment.version,
        "slotId": str(slot.id),
        "slotOutcome": "Released" if is_released else "Expired",
    }
    changed = {
        **about,
        "aggregateVersion": event.version,
        "origin": "Appointment",
        "previousStatus": "Scheduled",
        "status": "Cancelled",
    }
    orm.tell("pin.calendar.appointment-cancelled.v1", appointment.id, "", cancelled, as_of=as_of, run=run)
    orm.tell("pin.calendar.event-status-changed.v1", event.id, f":{event.version}", changed, as_of=as_of, run=run)
    log.info("appointment expired", appointment_id=str(appointment.id), slot_id=str(slot.id), slot_outcome=slot.status)


def by_worker(*flags: str) -> int:
    """The command as an operator runs it."""
    out = StringIO()
    call_command("run_appointment_timeout", "--once", "--drain", *flags, stdout=out)
    return int(json.loads(out.getvalue())["expiredCount"])


def _check(items: int, *, expected: int) -> None:
    [(expired, ready, audited)] = sql.fetch(
        "SELECT (SELECT count(*) FROM appointments WHERE status = 'Expired' AND version = 2),"
        " (SELECT count(*) FROM outbox_ready), (SELECT count(*) FROM audit_log)"
    )
    assert (items, expired, ready, audited) == (expected, expected, 2 * expected, 3 * expected)


def measure(*, runs: int, items: int) -> Report:
    """All ways in one run; the slow ones over a sample, since a rate is a rate."""
    sample = max(200, items // 20)
    now = clock.now()
    for name, count in (("overdue", items), ("overdue_sample", sample), ("overdue_few", 20)):
        with database.template(name):
            overdue_appointments(count, as_of=now)
    _prove_the_same_work(as_of=now)
    chunked, single = f"timeout --drain --chunk-size {CHUNK}", "timeout --drain, one item a transaction"
    bound, loop = f"one hand-written statement a chunk of {CHUNK}", "plain ORM loop"

    def contender(name: str, run: "partial[int]", of: str, expected: int) -> Contender:
        return Contender(name, run, partial(database.copy, of), partial(_check, expected=expected))

    measured = rates(
        [
            contender(chunked, partial(by_worker, "--chunk-size", str(CHUNK)), "overdue", items),
            contender(bound, partial(by_hand, as_of=now), "overdue", items),
            contender(single, partial(by_worker), "overdue_sample", sample),
            contender(loop, partial(by_orm, as_of=now), "overdue_sample", sample),
        ],
        runs=runs,
    )
    for name in ("overdue", "overdue_sample", "overdue_few"):
        database.drop(name)
    return Report(
        subject=_SUBJECT,
        title="Expiring requests",
        command=f'make bench ARGS="timeout --runs {runs} --items {items}"',
        rows=[
            Row(chunked, bound, ratio(measured, chunked, bound), 0.75),
            Row(chunked, loop, ratio(measured, chunked, loop), 30),
            Row(single, loop, ratio(measured, single, loop), 4),
        ],
        figures=list(measured.items()),
        unit="requests a second",
        remarks=[
            f"{items:,} overdue ({sample:,} for the two slow ones), each with slot, event, two reminders, two messages "
            "with their queue rows and three audit lines; half of the slots go back to the showcase. Before it is "
            "measured, the statement is checked to leave the very rows that the worker leaves."
        ],
    )


def _prove_the_same_work(*, as_of: datetime.datetime) -> None:
    with database.copy("overdue_few"):
        TimeoutJob(chunk_size=CHUNK).cycle(as_of=as_of, limit=CHUNK, keep_going=lambda: True)
        ours = rows.state()
    with database.copy("overdue_few"):
        by_hand(as_of=as_of)
        assert rows.state() == ours, "the statement and the worker differ"
