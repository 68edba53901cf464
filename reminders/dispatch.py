"""The cycle of the worker reminder-dispatch: due reminders are told, each exactly once, while they make sense."""

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from contracts.calendar import ReminderDue, ReminderKind
from core import clock, logs, sql
from core.errors import Inconsistent
from core.tracing import span
from outbox.publish import publish
from reminders import schedule
from reminders.models import SkipReason
from workers.chunks import Chunks
from workers.job import CycleResult, Job, KeepGoing

log = logs.get(__name__)

_LAG_BUCKETS = (1, 2, 5, 10, 15, 30, 45, 60, 90, 120, 300, 900)


@dataclass(frozen=True, kw_only=True)
class DispatchResult(CycleResult):
    """What one run did. `skipped_locked_count`: still due, but in another hand."""

    sent_count: int = 0
    skipped_count: int = 0
    skipped_locked_count: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """A due reminder with what its event is at this moment, both locked."""

    reminder_id: UUID
    offset_minutes: int
    due_at: datetime.datetime
    event_id: UUID
    tenant_id: UUID
    owner_user_id: UUID
    client_user_id: UUID | None
    origin: str
    source_id: UUID | None
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    status: str
    version: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to become of a due reminder: Sent, or Skipped because its event is over."""

    due: Due
    as_of: datetime.datetime
    is_sent: bool

    @property
    def lag_seconds(self) -> float:
        return (self.as_of - self.due.due_at).total_seconds()

    def message(self) -> ReminderDue:
        """What tells that it is due; made when it is asked for, which is while the server writes."""
        due = self.due
        is_appointment = due.origin == "Appointment"
        return ReminderDue(
            tenant_id=due.tenant_id,
            occurred_at=self.as_of,
            aggregate_version=due.version,
            reminder_id=due.reminder_id,
            event_id=due.event_id,
            owner_user_id=due.owner_user_id,
            client_user_id=due.client_user_id,
            kind=ReminderKind.APPOINTMENT_REMINDER if is_appointment else ReminderKind.CALENDAR_REMINDER,
            start_at=due.start_at,
            time_zone=due.time_zone,
            offset_minutes=due.offset_minutes,
            appointment_id=due.source_id if is_appointment else None,
        )


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A row of the dry run."""

    reminder_id: UUID
    event_id: UUID
    due_at: datetime.datetime
    outcome: str


def plan(due: Due, *, as_of: datetime.datetime, stale_after: datetime.timedelta) -> Outcome:
    """Sent while the event is ahead, in progress or over for no longer than `stale_after`; else Skipped (event_over).

    Raises Inconsistent for a Pending reminder of a finished event, which rule 3 forbids.
    """
    if due.status != "Scheduled":
        raise Inconsistent(f"reminder {due.reminder_id} is Pending, its event {due.event_id} is {due.status}")
    return Outcome(due, as_of, is_sent=as_of <= due.end_at + stale_after)


@dataclass
class DispatchJob(Job[DispatchResult]):
    """Sends what is due, chunk after chunk, until nothing is left. Remembers what failed in its last run.

    `now` is read anew for each chunk, so that what becomes due during a long run goes out with it.
    """

    stale_after: datetime.timedelta
    now: Callable[[], datetime.datetime] = clock.now
    _metrics: "DispatchMetrics" = field(default_factory=lambda: DispatchMetrics(CollectorRegistry()), init=False)
    _failed_before: tuple[UUID, ...] = field(default=(), init=False)

    name: ClassVar[str] = "reminder-dispatch"
    metrics_prefix: ClassVar[str] = "calendar_reminder_dispatch"

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> DispatchResult:
        """One run over all that is due, oldest first, `limit` of them a transaction."""
        run = _Run(
            now=self.now,
            stale_after=self.stale_after,
            metrics=self._metrics,
            keep_going=keep_going,
            failed_before=self._failed_before,
        )
        result = run.dispatch(chunk_size=limit)
        self._failed_before = run.to_retry
        return result

    def preview(self, *, as_of: datetime.datetime, limit: int) -> Iterator[Dispatch]:
        """What a run as of that instant would do with the first `limit` due reminders; changes and locks nothing."""
        for due in sql.read(Due, f"{_SELECT} WHERE {_DUE} {_ORDER} LIMIT %s", [as_of, limit]):
            try:
                outcome = "sent" if plan(due, as_of=as_of, stale_after=self.stale_after).is_sent else "event_over"
            except Inconsistent:
                outcome = "inconsistent"
            yield Dispatch(due.reminder_id, due.event_id, due.due_at, outcome)

    def make_metrics(self, registry: CollectorRegistry) -> "DispatchMetrics":
        self._metrics = DispatchMetrics(registry)
        return self._metrics


class DispatchMetrics:
    """The worker's own metrics, beside those of every worker.

    Counted chunk by chunk, not from the result: a run over a million keeps no list of lags, and one that breaks off
    has sent what it has sent.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sent = Counter("calendar_reminders_sent", "Reminders sent", registry=registry)
        skipped = Counter("calendar_reminders_skipped", "Reminders skipped at dispatch", ["reason"], registry=registry)
        self._skipped = skipped.labels(reason=SkipReason.EVENT_OVER.value)
        self._lag = Histogram(
            "calendar_reminder_dispatch_lag_seconds",
            "From due to sent",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self._oldest = Gauge(
            "calendar_reminder_dispatch_backlog_oldest_age_seconds",
            "For how long the oldest Pending reminder has been due; 0 when none is",
            registry=registry,
        )

    def sent(self, *, lag_seconds: float) -> None:
        self._sent.inc()
        self._lag.observe(lag_seconds)

    def skipped(self) -> None:
        self._skipped.inc()

    def record(self, result: DispatchResult) -> None:
        """Everything is counted where it happens."""

    def refresh(self, as_of: datetime.datetime) -> None:
        [(oldest,)] = sql.fetch("SELECT min(due_at) FROM event_reminders WHERE status = 'Pending'")
        self._oldest.set(clock.age_seconds(oldest, as_of=as_of))


_SELECT = """
SELECT reminder.id, reminder.offset_minutes, reminder.due_at, event.id, event.tenant_id, event.owner_user_id,
       event.client_user_id, event.origin, event.source_id, event.start_at, event.end_at, event.time_zone,
       event.status, event.version
FROM calendar_events AS event JOIN event_reminders AS reminder ON reminder.event_id = event.id
"""
_ORDER = "ORDER BY reminder.due_at, reminder.id"
# Written as a literal, so that every plan can use the partial index ix_event_reminders_pending_due_at.
_DUE = "reminder.status = 'Pending' AND reminder.due_at < %s"
# Event and reminder in one statement: no reassignment or move can slip between, and as the event stays locked until the
# commit, the outbox ids of an event's messages are drawn in the order of their commits.
_LOCK = "FOR NO KEY UPDATE OF event, reminder SKIP LOCKED"


class _Run(Chunks[Due, Outcome]):
    """One run in progress."""

    id_name: ClassVar[str] = "reminder_id"

    def __init__(
        self,
        *,
        now: Callable[[], datetime.datetime],
        stale_after: datetime.timedelta,
        metrics: DispatchMetrics,
        keep_going: KeepGoing,
        failed_before: Sequence[UUID],
    ) -> None:
        super().__init__(keep_going=keep_going, failed_before=failed_before)
        self.now = now
        self.stale_after = stale_after
        self.metrics = metrics
        self.as_of = now()
        self.sent = 0
        self.skipped = 0
        self.reached: tuple[datetime.datetime, UUID] | None = None
        self.is_exhausted = False

    def dispatch(self, *, chunk_size: int) -> DispatchResult:
        self._pass(chunk_size)
        # What was in another hand is revisited: the passes end with one that gets nothing more done.
        before = -1
        while self.sent + self.skipped > before and self.keep_going():
            before = self.sent + self.skipped
            self._pass(chunk_size)
        skipped_locked = self._count_elsewhere()
        self.as_of = self.now()
        self.retry_failed(while_=lambda: True)
        return DispatchResult(
            sent_count=self.sent,
            skipped_count=self.skipped,
            skipped_locked_count=skipped_locked,
            failed_count=len(self.failed),
        )

    def _pass(self, chunk_size: int) -> None:
        self.reached, self.is_exhausted = None, False
        while not self.is_exhausted and self.keep_going():
            self.as_of = self.now()
            self.attempt(partial(self._claim_next, chunk_size))

    def _claim_next(self, size: int) -> list[Due]:
        condition = f"{_DUE} AND reminder.id <> ALL(%s)"
        params: list[Any] = [self.as_of, [*self.failed_before, *self.failed]]
        if self.reached:
            condition += " AND (reminder.due_at, reminder.id) > (%s, %s)"
            params += self.reached
        dues = sql.read(Due, f"{_SELECT} WHERE {condition} {_ORDER} LIMIT %s {_LOCK}", [*params, size])
        if dues:
            self.reached = (dues[-1].due_at, dues[-1].reminder_id)
        else:
            self.is_exhausted = True
        return dues

    def _count_elsewhere(self) -> int:
        """What was due when the last pass found nothing more to have: it was in another hand."""
        query = f"SELECT count(*) FROM event_reminders AS reminder WHERE {_DUE} AND reminder.id <> ALL(%s)"
        [(count,)] = sql.fetch(query, [self.as_of, list(self.to_retry)])
        return int(count) if self.is_exhausted else 0

    def id_of(self, item: Due) -> UUID:
        return item.reminder_id

    def claim_again(self, ids: Sequence[UUID]) -> list[Due]:
        return sql.read(
            Due, f"{_SELECT} WHERE {_DUE} AND reminder.id = ANY(%s) {_ORDER} {_LOCK}", [self.as_of, list(ids)]
        )

    def plan(self, item: Due) -> Outcome:
        return plan(item, as_of=self.as_of, stale_after=self.stale_after)

    def write(self, changes: Sequence[Outcome]) -> None:
        with span("dispatch reminders", count=str(len(changes))):
            sent = [change for change in changes if change.is_sent]
            schedule.mark_sent([change.due.reminder_id for change in sent], as_of=self.as_of)
            schedule.mark_stale([change.due.reminder_id for change in changes if not change.is_sent], as_of=self.as_of)
            publish([change.message() for change in sent], as_of=self.as_of)

    def done(self, change: Outcome) -> None:
        if change.is_sent:
            self.sent += 1
            self.metrics.sent(lag_seconds=change.lag_seconds)
        else:
            self.skipped += 1
            self.metrics.skipped()

    def tell(self, change: Outcome) -> None:
        due = change.due
        ids = {"reminder_id": due.reminder_id, "event_id": due.event_id, "tenant_id": due.tenant_id}
        if change.is_sent:
            log.info("reminder-sent", **ids, offset_minutes=due.offset_minutes, lag_seconds=change.lag_seconds)
        else:
            log.info("reminder-skipped", **ids, reason=SkipReason.EVENT_OVER.value)
