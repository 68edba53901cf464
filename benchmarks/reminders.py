"""Sending due reminders: the dispatcher against one hand-written statement, and against a plain loop over the ORM."""

import datetime
import json
from functools import partial
from io import StringIO
from uuid import UUID

from django.core.management import call_command
from django.db import transaction

from benchmarks import database, orm, rows
from benchmarks.runner import Contender, Report, Row, rates, ratio
from core import clock, logs, sql
from core.ids import new_id
from pin_calendar.models import CalendarEvent
from reminders.dispatch import DispatchJob
from reminders.models import EventReminder, ReminderStatus

log = logs.get(__name__)

CHUNK = 500

BY_HAND = """
WITH due AS MATERIALIZED (
    SELECT r.id, r.offset_minutes, e.id AS event_id, e.tenant_id, e.owner_user_id, e.client_user_id, e.origin,
           e.source_id, e.start_at, e.time_zone, e.version
    FROM event_reminders AS r JOIN calendar_events AS e ON e.id = r.event_id
    WHERE r.status = 'Pending' AND r.due_at < %(as_of)s AND e.status = 'Scheduled'
      AND e.end_at + interval '10 minutes' >= %(as_of)s
    ORDER BY r.due_at, r.id LIMIT %(limit)s FOR NO KEY UPDATE OF e, r SKIP LOCKED
), sent AS (
    UPDATE event_reminders AS r SET status = 'Sent', sent_at = %(as_of)s, updated_at = %(as_of)s
    FROM due WHERE r.id = due.id RETURNING due.*
), rows AS MATERIALIZED (
    SELECT uuidv7() AS message_id, sent.*, event_id::text AS key FROM sent
), told AS (
    INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers, tenant_id,
                                 correlation_id, created_at)
    SELECT message_id, 'pin.calendar.reminder-due.v1:' || id, 'pin.calendar.reminder-due.v1', key, 1,
           format('{"contractVersion":1,"tenantId":"%%s","occurredAt":"%%s","aggregateVersion":%%s,"reminderId":"%%s",'
                  '"eventId":"%%s","ownerUserId":"%%s","clientUserId":"%%s","kind":"AppointmentReminder",'
                  '"startAt":"%%s","timeZone":"%%s","offsetMinutes":%%s,"appointmentId":"%%s"}', tenant_id,
                  %(now)s::text, version, id, key, owner_user_id, client_user_id,
                  to_char(start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), time_zone, offset_minutes,
                  source_id),
           format('{"ce_specversion":"1.0","ce_id":"%%s","ce_type":"pin.calendar.reminder-due.v1",'
                  '"ce_source":"/pin/calendar","ce_time":"%%s","ce_subject":"%%s","content-type":"application/json",'
                  '"ce_correlationid":"%%s","ce_tenantid":"%%s"}', message_id, %(now)s::text, key, %(run)s::text,
                  tenant_id),
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
        done += written
    return done


def by_orm(*, as_of: datetime.datetime) -> int:
    """As it is written first: models, `.save()`, one transaction an item."""
    due = EventReminder.objects.filter(status=ReminderStatus.PENDING, due_at__lt=as_of).order_by("due_at", "id")
    ids = list(due.values_list("id", flat=True))
    run = new_id()
    for reminder_id in ids:
        _send_by_orm(reminder_id, as_of=as_of, run=run)
    return len(ids)


@transaction.atomic
def _send_by_orm(reminder_id: UUID, *, as_of: datetime.datetime, run: UUID) -> None:
    reminder = EventReminder.objects.select_for_update(no_key=True).get(id=reminder_id)
    event = CalendarEvent.objects.select_for_update(no_key=True).get(id=reminder.event_id)
    reminder.status, reminder.sent_at, reminder.updated_at = ReminderStatus.SENT, as_of, as_of
    reminder.save()
    message = {
        "contractVersion": 1,
        "tenantId": str(event.tenant_id),
        "occurredAt": clock.iso(as_of),
        "aggregateVersion": event.version,
        "reminderId": str(reminder.id),
        "eventId": str(event.id),
        "ownerUserId": str(event.owner_user_id),
        "clientUserId": str(event.client_user_id),
        "kind": "AppointmentReminder",
        "startAt": clock.iso(event.start_at),
        "timeZone": event.time_zone,
        "offsetMinutes": reminder.offset_minutes,
        "appointmentId": str(event.source_id),
    }
    orm.tell("pin.calendar.reminder-due.v1", event.id, "", message, as_of=as_of, run=run)
    log.info("reminder-sent", reminder_id=str(reminder.id), event_id=str(event.id), tenant_id=str(event.tenant_id))


def by_worker() -> int:
    """The command as an operator runs it."""
    out = StringIO()
    call_command("run_reminder_dispatch", "--once", "--batch-size", str(CHUNK), stdout=out)
    return int(json.loads(out.getvalue())["sentCount"])


def check(items: int, *, expected: int) -> None:
    """Every one was changed, once, with its messages."""
    [(sent, ready)] = sql.fetch(
        "SELECT (SELECT count(*) FROM event_reminders WHERE status = 'Sent'), (SELECT count(*) FROM outbox_ready)"
    )
    assert (items, sent, ready) == (expected, expected, expected)


def measure(*, runs: int, items: int) -> Report:
    """All ways in one run; the loop over a sample, since a rate is a rate."""
    sample = max(200, items // 50)
    now = clock.now()
    for name, count in (("due", items), ("due_sample", sample), ("due_few", 20)):
        with database.template(name):
            rows.due_reminders(count, as_of=now)
    _prove_the_same_work(as_of=now)
    ours, bound, loop = "dispatcher", f"UPDATE … RETURNING feeding an INSERT, chunks of {CHUNK}", "plain ORM loop"

    def contender(name: str, run: "partial[int]", of: str, expected: int) -> Contender:
        return Contender(name, run, partial(database.copy, of), partial(check, expected=expected))

    measured = rates(
        [
            contender(ours, partial(by_worker), "due", items),
            contender(bound, partial(by_hand, as_of=now), "due", items),
            contender(loop, partial(by_orm, as_of=now), "due_sample", sample),
        ],
        runs=runs,
    )
    for name in ("due", "due_sample", "due_few"):
        database.drop(name)
    return Report(
        subject="reminders",
        title="Sending due reminders",
        command=f'make bench ARGS="reminders --runs {runs} --items {items}"',
        rows=[
            Row(ours, bound, ratio(measured, ours, bound), 0.5),
            Row(ours, loop, ratio(measured, ours, loop), 28),
        ],
        figures=list(measured.items()),
        unit="reminders a second",
        remarks=[
            f"{items:,} due ({sample:,} for the loop), each of an appointment's event, with its message and queue row. "
            "Before it is measured, statement and loop are checked to leave the very rows that the dispatcher leaves."
        ],
    )


def _prove_the_same_work(*, as_of: datetime.datetime) -> None:
    with database.copy("due_few"):
        job = DispatchJob(stale_after=datetime.timedelta(minutes=10), now=lambda: as_of)
        job.cycle(as_of=as_of, limit=CHUNK, keep_going=lambda: True)
        ours = rows.state()
    with database.copy("due_few"):
        by_hand(as_of=as_of)
        assert rows.state() == ours, "the statement and the dispatcher differ"
    with database.copy("due_few"):
        by_orm(as_of=as_of)
        assert rows.state() == ours, "the loop and the dispatcher differ"
