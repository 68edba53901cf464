"""Expiring requests: the worker against one hand-written statement, a plain loop over the ORM, and job queues."""

import datetime
import json
from functools import partial
from io import StringIO
from uuid import UUID

from django.core.management import call_command
from django.db import connection, transaction
from psycopg import RawCursor

from appointments.models import Appointment, AppointmentStatus
from appointments.timeout import TimeoutJob
from audit.models import AuditLine
from benchmarks import database, expiry, orm, rows
from benchmarks.peers import queues
from benchmarks.peers.project import present
from benchmarks.runner import Contender, Report, Row, rates, ratio
from core import clock, logs, sql
from core.ids import new_id
from pin_calendar.models import EventStatus, SlotStatus
from reminders.models import ReminderStatus, SkipReason
from tests.bulk import overdue_appointments

log = logs.get(__name__)

CHUNK = 200
_SUBJECT = "timeout"
# Of the chunked worker, and of the one that takes one item a transaction where something was promised of it.
_TARGETS = {"procrastinate": (8, 1), "pgqueuer": (2.5,)}

_WHY_BELOW_THE_BOUND = (
    "the server works as long for the worker as for the statement, by a profile 165 µs an item beside 162. "
    "The worker adds what the server has to wait for, some 65 µs: it reads the claim (12), plans (21), commits, and "
    "each cycle counts before and after and leaves its row in job_runs (25). Messages, audit lines and the log (75) "
    "are made while the server writes. More would take a second session a worker that claims ahead, or rules in SQL."
)


def by_hand(*, as_of: datetime.datetime) -> int:
    """Chunk after chunk, a statement and a commit each."""
    params = {"as_of": as_of, "now": clock.iso(as_of), "limit": CHUNK, "run": new_id()}
    done = 0
    while written := sql.execute(expiry.OVERDUE, params):
        done += written // 2
    return done


def by_hand_one_by_one(*, as_of: datetime.datetime) -> None:
    """A statement and a commit a request, as the jobs of the queues do it."""
    overdue = Appointment.objects.filter(status=AppointmentStatus.PENDING, pending_expires_at__lt=as_of)
    ids = list(overdue.values_list("id", flat=True))
    with RawCursor(connection.connection) as cursor:
        for appointment_id in ids:
            cursor.execute(expiry.ONE, [appointment_id, as_of, clock.iso(as_of), new_id()])


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


def check(items: int, *, expected: int) -> None:
    """Every one was changed, once, with its messages."""
    [(expired, ready, audited)] = sql.fetch(
        "SELECT (SELECT count(*) FROM appointments WHERE status = 'Expired' AND version = 2),"
        " (SELECT count(*) FROM outbox_ready), (SELECT count(*) FROM audit_log)"
    )
    assert (items, expired, ready, audited) == (expected, expected, 2 * expected, 3 * expected)


def measure(*, runs: int, items: int) -> Report:
    """All ways in one run; the slow ones over a sample, since a rate is a rate."""
    sample, jobs = max(200, items // 20), max(200, items // 4)
    now = clock.now()
    counts = {"overdue": items, "overdue_jobs": jobs, "overdue_sample": sample, "overdue_few": 20}
    for name, count in counts.items():
        with database.template(name):
            overdue_appointments(count, as_of=now)
    _prove_the_same_work(as_of=now)
    chunked, single = f"timeout --drain --chunk-size {CHUNK}", "timeout --drain, one item a transaction"
    bound, loop = f"one hand-written statement a chunk of {CHUNK}", "plain ORM loop"

    def contender(name: str, run: "partial[int]", of: str) -> Contender:
        return Contender(name, run, partial(database.copy, of), partial(check, expected=counts[of]))

    remarks = [
        f"{items:,} overdue ({sample:,} for the loop, {jobs:,} for the queues and for one item a transaction), each "
        "with slot, event, two reminders, two messages with their queue rows and three audit lines; half of the slots "
        "go back to the showcase. After each run all are looked at: changed, once. Before it is measured, the "
        "statement and the loop are checked to leave the very rows that the worker leaves."
    ]
    peers = present(queues.all_of("overdue_jobs"), remarks=remarks)
    measured = rates(
        [
            contender(chunked, partial(by_worker, "--chunk-size", str(CHUNK)), "overdue"),
            contender(bound, partial(by_hand, as_of=now), "overdue"),
            contender(single, partial(by_worker), "overdue_jobs"),
            contender(loop, partial(by_orm, as_of=now), "overdue_sample"),
            *(Contender(peer.name, peer.work, peer.prepared, partial(check, expected=jobs)) for peer in peers),
        ],
        runs=runs,
    )
    for name in counts:
        database.drop(name)
    report_rows = [
        Row(chunked, bound, ratio(measured, chunked, bound), 0.75, why=_WHY_BELOW_THE_BOUND),
        Row(chunked, loop, ratio(measured, chunked, loop), 30),
        Row(single, loop, ratio(measured, single, loop), 4),
    ]
    for peer in peers:
        report_rows += [
            Row(ours, peer.name, ratio(measured, ours, peer.name), target)
            for ours, target in zip((chunked, single), _TARGETS[peer.name], strict=False)
        ]
    if peers:
        remarks.append(
            "A job is one request: the same statement for the one id, prepared, in a transaction of its own on one of "
            "10 sessions. The jobs are in the queue before it is measured; one worker, in an environment of its own. "
            + " ".join(peer.remark for peer in peers)
        )
    return Report(
        subject=_SUBJECT,
        title="Expiring requests",
        command=f'make bench ARGS="timeout --runs {runs} --items {items}"',
        rows=report_rows,
        figures=list(measured.items()),
        unit="requests a second",
        remarks=remarks,
    )


def _prove_the_same_work(*, as_of: datetime.datetime) -> None:
    with database.copy("overdue_few"):
        TimeoutJob(chunk_size=CHUNK).cycle(as_of=as_of, limit=CHUNK, keep_going=lambda: True)
        ours = rows.state()
    with database.copy("overdue_few"):
        by_hand(as_of=as_of)
        assert rows.state() == ours, "the statement and the worker differ"
    with database.copy("overdue_few"):
        by_hand_one_by_one(as_of=as_of)
        assert rows.state() == ours, "the statement for one and the worker differ"
    with database.copy("overdue_few"):
        by_orm(as_of=as_of)
        assert rows.state() == ours, "the loop and the worker differ"
