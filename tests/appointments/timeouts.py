"""What the tests of the timeout worker share."""

import json
from typing import Any

import pytest

from appointments.models import Appointment
from appointments.timeout import TimeoutJob, TimeoutResult
from core import sql
from tests import bulk
from tests.factories import NOON, an_overdue_appointment
from tests.keep_going import always as always  # noqa: PLC0414 (who takes `expire` from here takes it too)


class Until:
    """A `keep_going` that says no from its n-th question on; `asked` counts them."""

    def __init__(self, answers: int) -> None:
        self._left = answers
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        self._left -= 1
        return self._left >= 0


def expire(*, job: TimeoutJob | None = None, chunk_size: int = 1, limit: int = 200) -> TimeoutResult:
    """One cycle as of NOON."""
    return (job or TimeoutJob(chunk_size=chunk_size)).cycle(as_of=NOON, limit=limit, keep_going=always)


def poisoned(count: int, *, healthy: int = 0) -> None:
    """Overdue appointments; the events of the oldest `count` are Completed, which the cascade does not expect."""
    bulk.overdue_appointments(count + healthy)
    sql.execute(
        """
        UPDATE calendar_events SET status = 'Completed' WHERE source_id IN (
            SELECT id FROM appointments ORDER BY pending_expires_at, id LIMIT %s)
        """,
        [count],
    )


def one_refused_by_the_database(**fields: Any) -> Appointment:
    """The oldest overdue appointment; whatever writes its event breaks a CHECK, whose error quotes the whole row.

    To be called before other rows are made: a table with pending checks takes no trigger.
    """
    sql.execute(
        """
        CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.version := 0; RETURN NEW; END';
        CREATE TRIGGER poison BEFORE UPDATE ON calendar_events
            FOR EACH ROW WHEN (OLD.time_zone = 'Poison') EXECUTE FUNCTION poison()
        """
    )
    return an_overdue_appointment(
        calendar_event__time_zone="Poison", pending_expires_at=NOON.replace(year=NOON.year - 1), **fields
    )


def statuses() -> dict[str, int]:
    """How many appointments are in which status."""
    return dict(sql.fetch("SELECT status, count(*) FROM appointments GROUP BY status"))


def logged(capsys: pytest.CaptureFixture[str], event: str | None = None) -> list[dict[str, Any]]:
    """The log lines since the last look, or those of one event."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if event in (None, line["event"])]
