"""The workers as the operations page sees them: what each does, what it leaves behind when it doesn't."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.conf import settings

from appointments.timeout import TimeoutJob
from core import sql
from crm import lead_feed
from crm.job import CrmSyncJob
from notifications import audience
from notifications.job import NotificationsJob
from ops.collector import READINGS, Reading
from outbox.publish import SHARDS
from outbox.relay import RelayJob
from reminders.dispatch import DispatchJob

# Beside what /metrics tells: what only people look at.
MORE: tuple[Reading, ...] = (
    Reading("deliveries_pending", "Deliveries to be sent", "SELECT count(*) FROM deliveries WHERE status = 'pending'"),
    Reading(
        "deliveries_oldest_age_seconds",
        "How long the oldest delivery has been due",
        """
        SELECT greatest(0, extract(epoch FROM %(as_of)s - coalesce(min(next_attempt_at), %(as_of)s)))
        FROM deliveries WHERE status = 'pending'
        """,
    ),
    Reading("deliveries_parked", "Deliveries given up", "SELECT count(*) FROM deliveries WHERE status = 'parked'"),
    Reading(
        "writing_age_seconds",
        "Age of the oldest writing transaction, which holds the relay's floor",
        """
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
        WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
        """,
    ),
)
ALL_READINGS = (*READINGS, *MORE)


@dataclass(frozen=True, slots=True)
class Worker:
    """`done` is its throughput's name in `job_runs.counts`. One that `ticks` leaves a row a cycle, others when they
    had something to do. `topics` are what a consumer reads of ours."""

    name: str
    command: str
    purpose: str
    done: str
    unit: str
    runbook: str
    ticks: bool = False
    group: str = ""
    topics: tuple[str, ...] = ()

    @property
    def consumer(self) -> str:
        """As in `processed_messages`."""
        prefix: str = settings.ENV.kafka_consumer_group_prefix
        return prefix + self.group if self.group else ""


WORKERS: tuple[Worker, ...] = (
    Worker(
        TimeoutJob.name,
        "run_appointment_timeout",
        "Expires requests that nobody answered",
        "expiredCount",
        "requests expired",
        runbook="appointment-timeout",
        ticks=True,
    ),
    Worker(
        DispatchJob.name,
        "run_reminder_dispatch",
        "Sends reminders that are due",
        "sentCount",
        "reminders sent",
        runbook="reminder-dispatch",
        ticks=True,
    ),
    Worker(
        RelayJob.name,
        "run_outbox_relay",
        "Publishes messages to Kafka",
        "published",
        "messages published",
        runbook="outbox-backlog",
    ),
    Worker(
        NotificationsJob.name,
        "run_notifications",
        "Tells people, by mail",
        "sentCount",
        "deliveries sent",
        runbook="consumers",
        group=NotificationsJob.group_name,
        topics=tuple(contract.TOPIC for contract in audience.CONTRACTS),
    ),
    Worker(
        CrmSyncJob.name,
        "run_crm_sync",
        "Follows the CRM, feeds its leads",
        "handledCount",
        "messages handled",
        runbook="consumers",
        group=CrmSyncJob.group_name,
        topics=tuple(contract.TOPIC for contract in lead_feed.CONTRACTS),
    ),
)


@dataclass(frozen=True, slots=True)
class Bucket:
    done: int = 0
    failed: int = 0
    longest_ms: int = 0


@dataclass(slots=True)
class Record:
    """What a worker did in the window: in all, and bucket by bucket."""

    cycles: int = 0
    done: int = 0
    failed: int = 0
    sum_ms: int = 0
    longest_ms: int = 0
    buckets: list[Bucket] = field(default_factory=list)
    last_success_at: datetime.datetime | None = None

    @property
    def mean_ms(self) -> int:
        return round(self.sum_ms / self.cycles) if self.cycles else 0


_RUNS = """
SELECT run.job, floor(extract(epoch FROM run.started_at - %(since)s) / %(width)s)::int AS bucket,
       sum(coalesce((run.counts ->> 'cycles')::bigint, 1)),
       coalesce(sum((run.counts ->> worker.done)::bigint), 0),
       sum(coalesce((run.counts ->> 'failedCount')::bigint, (run.counts ->> 'failed')::bigint, 0)
           + (run.outcome = 'Failed')::int),
       max(run.duration_ms / coalesce((run.counts ->> 'cycles')::bigint, 1)), sum(run.duration_ms)
FROM jsonb_to_recordset(%(workers)s::jsonb) AS worker (job text, done text)
JOIN job_runs AS run ON run.job = worker.job AND run.started_at >= %(since)s AND run.started_at < %(until)s
GROUP BY run.job, bucket
"""
_LAST_SUCCESS = """
SELECT worker.job, success.ended_at
FROM jsonb_to_recordset(%s::jsonb) AS worker (job text)
CROSS JOIN LATERAL (SELECT started_at + duration_ms * interval '1 millisecond' AS ended_at FROM job_runs
                    WHERE job = worker.job AND outcome = 'Succeeded' ORDER BY started_at DESC LIMIT 1) AS success
"""


def records(*, as_of: datetime.datetime, hours: int, buckets: int) -> dict[str, Record]:
    """Each worker's record of the last hours, by its name; two queries."""
    since = as_of - datetime.timedelta(hours=hours)
    by_name = {worker.name: Record(buckets=[Bucket()] * buckets) for worker in WORKERS}
    asked = sql.as_json({"job": worker.name, "done": worker.done} for worker in WORKERS)
    parameters = {"since": since, "until": as_of, "width": hours * 3_600 / buckets, "workers": asked}
    for name, place, cycles, done, failed, longest_ms, sum_ms in sql.fetch(_RUNS, parameters):
        record = by_name[name]
        record.buckets[min(place, buckets - 1)] = Bucket(int(done), int(failed), longest_ms)
        record.cycles += int(cycles)
        record.done += int(done)
        record.failed += int(failed)
        record.longest_ms = max(record.longest_ms, longest_ms)
        record.sum_ms += int(sum_ms)
    for name, succeeded_at in sql.fetch(_LAST_SUCCESS, [asked]):
        by_name[name].last_success_at = succeeded_at
    return by_name


@dataclass(frozen=True, slots=True)
class Unheard:
    """Messages of the last `LOOKED_AT` that were published and that a consumer has not handled."""

    count: int
    oldest_age_seconds: float


LOOKED_AT = 1_000
_GRACE_SECONDS = 60

_UNHEARD = """
SELECT consumer.job, count(*), extract(epoch FROM %(as_of)s - min(message.created_at))
FROM jsonb_to_recordset(%(consumers)s::jsonb) AS consumer (job text, name text, topics text[])
JOIN (SELECT id, message_id, topic, created_at FROM outbox_messages ORDER BY id DESC LIMIT %(limit)s) AS message
  ON message.topic = ANY (consumer.topics)
WHERE message.created_at < %(as_of)s - make_interval(secs => %(grace)s)
  AND NOT EXISTS (SELECT 1 FROM outbox_ready AS ready WHERE ready.shard = ANY (%(shards)s) AND ready.id = message.id)
  AND NOT EXISTS (SELECT 1 FROM outbox_parked AS parked WHERE parked.id = message.id)
  AND NOT EXISTS (SELECT 1 FROM processed_messages AS handled
                  WHERE handled.consumer = consumer.name AND handled.message_id = message.message_id)
GROUP BY consumer.job
"""


def unheard(*, as_of: datetime.datetime) -> dict[str, Unheard]:
    """By consumer, what it has not handled a minute after it was told; one query, that looks at the newest messages."""
    consumers: Sequence[Worker] = [worker for worker in WORKERS if worker.group]
    asked = sql.as_json({"job": w.name, "name": w.consumer, "topics": w.topics} for w in consumers)
    parameters = {
        "as_of": as_of,
        "consumers": asked,
        "limit": LOOKED_AT,
        "grace": _GRACE_SECONDS,
        "shards": [*range(SHARDS)],
    }
    found = {job: Unheard(count, float(age)) for job, count, age in sql.fetch(_UNHEARD, parameters)}
    return {worker.name: found.get(worker.name, Unheard(0, 0.0)) for worker in consumers}
