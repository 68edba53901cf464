"""The cycle of the worker appointment-timeout: requests that nobody decided in time lapse, each exactly once."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge

from appointments import lifecycle, locks
from appointments.lifecycle import Change
from appointments.locks import Case, Cursor
from appointments.matrix import Party, Verb
from core import logs
from core.actors import Actor
from core.errors import Inconsistent
from core.tracing import span
from workers.chunks import Chunks
from workers.job import CycleResult, Job, KeepGoing

log = logs.get(__name__)


@dataclass(frozen=True, kw_only=True)
class TimeoutResult(CycleResult):
    """What one cycle did. `skipped_locked_count`: still overdue, but in another hand."""

    expired_count: int = 0
    slots_released_count: int = 0
    slots_expired_count: int = 0
    skipped_locked_count: int = 0


@dataclass(frozen=True, slots=True)
class Lapse:
    """A row of the dry run: what would lapse, and what would become of its slot."""

    appointment_id: UUID
    slot_id: UUID
    pending_expires_at: datetime.datetime | None
    slot_outcome: str


@dataclass
class TimeoutJob(Job[TimeoutResult]):
    """Expires overdue requests, `chunk_size` of them a transaction at most. Remembers what failed in its last cycle."""

    chunk_size: int = 1
    _metrics: "TimeoutMetrics" = field(default_factory=lambda: TimeoutMetrics(CollectorRegistry()), init=False)
    _failed_before: tuple[UUID, ...] = field(default=(), init=False)

    name: ClassVar[str] = "appointment-timeout"
    metrics_prefix: ClassVar[str] = "calendar_appointment_timeout"

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> TimeoutResult:
        """One cycle over what is overdue as of `as_of`, oldest first; only what it expires counts against `limit`."""
        run = _Run(as_of=as_of, metrics=self._metrics, keep_going=keep_going, failed_before=self._failed_before)
        result = run.expire(limit=limit, chunk_size=self.chunk_size)
        self._failed_before = run.to_retry
        return result

    def preview(self, *, as_of: datetime.datetime, limit: int) -> Iterator[Lapse]:
        """What a cycle as of that instant would expire; changes and locks nothing."""
        for case in locks.read_overdue(as_of=as_of, limit=limit):
            try:
                outcome = _outcome(_plan(case, as_of=as_of).is_slot_released)
            except Inconsistent:
                outcome = "inconsistent"
            yield Lapse(case.appointment.id, case.slot.id, case.appointment.pending_expires_at, outcome)

    def make_metrics(self, registry: CollectorRegistry) -> "TimeoutMetrics":
        self._metrics = TimeoutMetrics(registry)
        return self._metrics


class TimeoutMetrics:
    """The worker's own metrics, beside those of every worker.

    What is expired is counted item by item, not from the result: a cycle that breaks off has expired what it has.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        items = Counter(
            "calendar_appointment_timeout_items",
            "Appointments expired, by what became of the slot",
            ["slot_outcome"],
            registry=registry,
        )
        self._released, self._expired = (items.labels(slot_outcome=outcome) for outcome in ("released", "expired"))
        self._skipped = Counter(
            "calendar_appointment_timeout_skip_locked",
            "Overdue appointments that were in another hand",
            registry=registry,
        )
        self._backlog = Gauge(
            "calendar_appointment_timeout_backlog", "Pending appointments past their deadline", registry=registry
        )

    def expired(self, *, is_slot_released: bool) -> None:
        (self._released if is_slot_released else self._expired).inc()

    def record(self, result: TimeoutResult) -> None:
        self._skipped.inc(result.skipped_locked_count)

    def refresh(self, as_of: datetime.datetime) -> None:
        self._backlog.set(locks.count_overdue(as_of=as_of))


class _Run(Chunks[Case, Change]):
    """One cycle in progress."""

    id_name: ClassVar[str] = "appointment_id"

    def __init__(
        self,
        *,
        as_of: datetime.datetime,
        metrics: TimeoutMetrics,
        keep_going: KeepGoing,
        failed_before: Sequence[UUID],
    ) -> None:
        super().__init__(keep_going=keep_going, failed_before=failed_before)
        self.as_of = as_of
        self.metrics = metrics
        self.expired = 0
        self.released = 0
        self.reached: Cursor | None = None
        self.is_exhausted = False

    def expire(self, *, limit: int, chunk_size: int) -> TimeoutResult:
        log.info("batch selected", count=locks.count_overdue(as_of=self.as_of, at_most=limit))
        while self.expired < limit and not self.is_exhausted and self.keep_going():
            self.attempt(partial(self._claim_next, min(chunk_size, limit - self.expired)))
        self.retry_failed(while_=lambda: self.expired < limit)
        return TimeoutResult(
            expired_count=self.expired,
            slots_released_count=self.released,
            slots_expired_count=self.expired - self.released,
            skipped_locked_count=self._count_elsewhere(),
            failed_count=len(self.failed),
            is_batch_full=self.expired >= limit,
        )

    def _claim_next(self, size: int) -> list[Case]:
        claim = locks.claim_overdue(as_of=self.as_of, after=self.reached, without=self.failed_before, limit=size)
        if claim.reached:
            self.reached = claim.reached
        else:
            self.is_exhausted = True
        return claim.cases

    def _count_elsewhere(self) -> int:
        """What is still overdue as far as this cycle came, though it neither failed nor was left: in another hand."""
        if not (self.reached or self.is_exhausted):
            return 0
        up_to = None if self.is_exhausted else self.reached
        return locks.count_overdue(as_of=self.as_of, up_to=up_to, without=(*self.to_retry, *self.left))

    def id_of(self, item: Case) -> UUID:
        return item.appointment.id

    def claim_again(self, ids: Sequence[UUID]) -> list[Case]:
        return locks.claim_again(ids, as_of=self.as_of)

    def plan(self, item: Case) -> Change:
        return _plan(item, as_of=self.as_of)

    def write(self, changes: Sequence[Change]) -> None:
        tenant_ids = {str(change.after.tenant_id) for change in changes}
        with span("expire appointments", tenant_id=",".join(sorted(tenant_ids))):
            lifecycle.write(changes, actor=Actor.system(), as_of=self.as_of)

    def done(self, change: Change) -> None:
        is_slot_released = change.is_slot_released
        self.expired += 1
        self.released += is_slot_released
        self.metrics.expired(is_slot_released=is_slot_released)

    def tell(self, change: Change) -> None:
        log.info(
            "appointment expired",
            appointment_id=change.after.id,
            slot_id=change.after.slot_id,
            calendar_event_id=change.after.calendar_event_id,
            tenant_id=change.after.tenant_id,
            slot_outcome=_outcome(change.is_slot_released),
        )


def _plan(case: Case, *, as_of: datetime.datetime) -> Change:
    row = lifecycle.permit(Verb.EXPIRE, case, party=Party.TIMEOUT, as_of=as_of)
    return lifecycle.plan(row, case, party=Party.TIMEOUT, as_of=as_of)


def _outcome(is_slot_released: bool) -> str:
    return "released" if is_slot_released else "expired"
