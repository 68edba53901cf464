"""What the jobs of the queues have in common: the statement's facts, and whose turn it is."""

import datetime
import os
import uuid

DATABASE = os.environ["DATABASE_URL"]
OVERDUE = "SELECT id::text FROM appointments WHERE status = 'Pending' ORDER BY pending_expires_at, id"
SESSIONS = 10
_ROWS_A_JOB = 2  # in the queue of the outbox, the last of what the statement writes


class Run:
    """The facts of one run; it counts the requests that were expired in it."""

    def __init__(self) -> None:
        self.expired = 0
        self._as_of = datetime.datetime.now(datetime.UTC)  # noqa: TID251 (a process without our clock)
        self._id = uuid.uuid4()

    def parameters(self, appointment_id: str) -> tuple[uuid.UUID, datetime.datetime, str, uuid.UUID]:
        """Of `benchmarks.expiry.ONE`."""
        now = self._as_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return uuid.UUID(appointment_id), self._as_of, now, self._id

    def note(self, rows: int) -> None:
        """A statement wrote so many rows; none when the request was no longer there to expire."""
        self.expired += rows == _ROWS_A_JOB
