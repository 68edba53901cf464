"""What the workers' metrics say of backlogs and last successes, read from PostgreSQL: a dead worker can't hide itself.

Only the web process exports these, under the workers' own names; alerts take the max() over both.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db import Error as DatabaseError
from django.db import connection, transaction
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from appointments.timeout import TimeoutJob
from core import logs
from reminders.dispatch import DispatchJob
from workers.reporting import sentence

log = logs.get(__name__)

_STATEMENT_TIMEOUT_MS = 5_000  # a scrape is given up after ten seconds

_LAST_SUCCESS = """
SELECT extract(epoch FROM started_at) + duration_ms / 1000.0 FROM job_runs
WHERE job = '{job}' AND outcome = 'Succeeded' ORDER BY started_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A gauge and the query for its value; a query without a row or value leaves the gauge out."""

    name: str
    meaning: str
    sql: str


OPEN_CONFLICTS = "calendar_reassignment_conflicts_open"
_TIMEOUT, _DISPATCH = TimeoutJob.metrics_prefix, DispatchJob.metrics_prefix

READINGS: tuple[Reading, ...] = (
    Reading(
        f"{_TIMEOUT}_backlog",
        "Pending appointments past their deadline",
        "SELECT count(*) FROM appointments WHERE status = 'Pending' AND pending_expires_at < %(as_of)s",
    ),
    Reading(
        f"{_TIMEOUT}_oldest_overdue_age_seconds",
        "How long ago the oldest Pending appointment should have expired",
        """
        SELECT greatest(0, extract(epoch FROM %(as_of)s - coalesce(min(pending_expires_at), %(as_of)s)))
        FROM appointments WHERE status = 'Pending'
        """,
    ),
    Reading(
        f"{_TIMEOUT}_last_success_timestamp_seconds",
        "End of the last cycle that succeeded",
        _LAST_SUCCESS.format(job=TimeoutJob.name),
    ),
    Reading(
        f"{_DISPATCH}_backlog_oldest_age_seconds",
        "How long ago the oldest Pending reminder was due",
        """
        SELECT greatest(0, extract(epoch FROM %(as_of)s - coalesce(min(due_at), %(as_of)s)))
        FROM event_reminders WHERE status = 'Pending'
        """,
    ),
    Reading(
        f"{_DISPATCH}_last_success_timestamp_seconds",
        "End of the last cycle that succeeded",
        _LAST_SUCCESS.format(job=DispatchJob.name),
    ),
    Reading("calendar_outbox_ready", "Messages still to be published", "SELECT count(*) FROM outbox_ready"),
    Reading(
        "calendar_outbox_oldest_age_seconds",
        "Age of the oldest message still to be published",
        """
        SELECT greatest(0, extract(epoch FROM %(as_of)s - coalesce(min(created_at), %(as_of)s)))
        FROM outbox_messages WHERE id IN (SELECT min(id) FROM outbox_ready GROUP BY shard)
        """,
    ),
    Reading("calendar_outbox_parked", "Messages of blocked keys", "SELECT count(*) FROM outbox_parked"),
    Reading(
        "calendar_outbox_blocked_keys", "Keys that a message holds back", "SELECT count(*) FROM outbox_blocked_keys"
    ),
    Reading(
        OPEN_CONFLICTS,
        "Appointments, live and not over, that a reassignment left behind and that nobody has decided about",
        """
        SELECT count(DISTINCT conflict.appointment_id) FROM reassignment_conflicts AS conflict
        JOIN appointments AS appointment ON appointment.id = conflict.appointment_id
        JOIN availability_slots AS slot ON slot.id = appointment.slot_id
        WHERE conflict.resolved_at IS NULL AND appointment.status IN ('Pending', 'Confirmed')
          AND slot.end_at > %(as_of)s
        """,
    ),
)


@dataclass(frozen=True, slots=True)
class DatabaseCollector(Collector):
    """All readings as of one instant; none of them when the database is away or too slow."""

    as_of: datetime.datetime

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            values = read(READINGS, as_of=self.as_of)
        except DatabaseError as error:
            log.warning("metrics not read from the database", error=sentence(error))
            return
        for reading in READINGS:
            yield GaugeMetricFamily(reading.name, reading.meaning, value=values[reading.name])


def read(readings: Sequence[Reading], *, as_of: datetime.datetime) -> dict[str, float | None]:
    """The value of each reading by its name, all as of one instant; None where there is none. Raises DatabaseError."""
    columns = ", ".join(f"({reading.sql})" for reading in readings)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = %s", [_STATEMENT_TIMEOUT_MS])
        cursor.execute(f"SELECT {columns}", {"as_of": as_of})
        values = cursor.fetchall()[0]
    return {
        reading.name: None if value is None else float(value) for reading, value in zip(readings, values, strict=True)
    }
