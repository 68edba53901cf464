"""The cycle of the worker appointment-timeout: requests that nobody decided in time lapse, each exactly once."""

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar
from uuid import UUID

from django.db import transaction
from prometheus_client import CollectorRegistry, Counter, Gauge

from appointments import lifecycle, locks
from appointments.lifecycle import Change
from appointments.locks import Case, Cursor
from appointments.matrix import Party, Verb
from core import logs
from core.actors import Actor
from core.database import is_cancelled
from core.errors import Inconsistent
from core.tracing import span
from workers.job import CycleResult, Job, KeepGoing, is_infrastructure_error

log = logs.get(__name__)

RETRIES_A_CYCLE = 50


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
    _failed_before: tuple[UUID, ...] = field(default=(), init=False)

    name: ClassVar[str] = "appointment-timeout"
    metrics_prefix: ClassVar[str] = "calendar_appointment_timeout"

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> TimeoutResult:
        """One cycle over what is overdue as of `as_of`, oldest first; only what it expires counts against `limit`."""
        run = _Run(as_of=as_of, keep_going=keep_going)
        result = run.expire(limit=limit, chunk_size=self.chunk_size, failed_before=self._failed_before)
        self._failed_before = (*run.untried, *run.failed)
        return result

    def preview(self, *, as_of: datetime.datetime, limit: int) -> Iterator[Lapse]:
        """What a cycle as of that instant would expire; changes and locks nothing."""
        for case in locks.read_overdue(as_of=as_of, limit=limit):
            try:
                row = lifecycle.permit(Verb.EXPIRE, case, party=Party.TIMEOUT, as_of=as_of)
                change = lifecycle.plan(row, case, party=Party.TIMEOUT, as_of=as_of)
                outcome = "released" if change.is_slot_released else "expired"
            except Inconsistent:
                outcome = "inconsistent"
            yield Lapse(case.appointment.id, case.slot.id, case.appointment.pending_expires_at, outcome)

    def make_metrics(self, registry: CollectorRegistry) -> "TimeoutMetrics":
        return TimeoutMetrics(registry)


class TimeoutMetrics:
    """The worker's own metrics, beside those of every worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._items = Counter(
            "calendar_appointment_timeout_items",
            "Appointments expired, by what became of the slot",
            ["slot_outcome"],
            registry=registry,
        )
        for outcome in ("released", "expired"):
            self._items.labels(slot_outcome=outcome)
        self._skipped = Counter(
            "calendar_appointment_timeout_skip_locked",
            "Overdue appointments that were in another hand",
            registry=registry,
        )
        self._backlog = Gauge(
            "calendar_appointment_timeout_backlog", "Pending appointments past their deadline", registry=registry
        )

    def record(self, result: TimeoutResult) -> None:
        self._items.labels(slot_outcome="released").inc(result.slots_released_count)
        self._items.labels(slot_outcome="expired").inc(result.slots_expired_count)
        self._skipped.inc(result.skipped_locked_count)

    def refresh(self, as_of: datetime.datetime) -> None:
        self._backlog.set(locks.count_overdue(as_of=as_of))


Claim = Callable[[], list[Case]]


@dataclass
class _Run:
    """One cycle in progress. A failed item is rolled back alone, logged and counted; it stays for the next cycle."""

    as_of: datetime.datetime
    keep_going: KeepGoing
    expired: int = 0
    released: int = 0
    failed: list[UUID] = field(default_factory=list)
    untried: list[UUID] = field(default_factory=list)

    def expire(self, *, limit: int, chunk_size: int, failed_before: Sequence[UUID]) -> TimeoutResult:
        log.info("batch selected", count=locks.count_overdue(as_of=self.as_of, at_most=limit))
        reached: Cursor | None = None
        is_exhausted = False
        while self.expired < limit and not is_exhausted and self.keep_going():
            claim = partial(
                locks.claim_overdue,
                as_of=self.as_of,
                after=reached,
                without=failed_before,
                limit=min(chunk_size, limit - self.expired),
            )
            claimed = self._attempt(claim)
            is_exhausted = not claimed
            reached = Cursor.at(claimed[-1]) if claimed else reached
        self._retry(failed_before, limit=limit)
        skipped = locks.count_overdue(
            as_of=self.as_of, up_to=None if is_exhausted else reached, without=[*self.failed, *self.untried]
        )
        return TimeoutResult(
            expired_count=self.expired,
            slots_released_count=self.released,
            slots_expired_count=self.expired - self.released,
            skipped_locked_count=skipped if reached or is_exhausted else 0,
            failed_count=len(self.failed),
            is_batch_full=self.expired >= limit,
        )

    def _retry(self, appointment_ids: Sequence[UUID], *, limit: int) -> None:
        self.untried = list(appointment_ids)
        for appointment_id in appointment_ids[:RETRIES_A_CYCLE]:
            if self.expired >= limit or not self.keep_going():
                break
            self.untried.remove(appointment_id)
            self._attempt(partial(locks.claim_again, [appointment_id], as_of=self.as_of))

    def _attempt(self, claim: Claim) -> list[Case]:
        """One transaction over what can be claimed; where it fails, its halves, down to the single item at fault."""
        cases: list[Case] = []
        try:
            with transaction.atomic(durable=True):
                cases = claim()
                changes, broken = self._plan(locks.without_reminders_elsewhere(cases))
                with span("expire appointments", tenant_id=",".join({str(c.after.tenant_id) for c in changes})):
                    lifecycle.write(changes, actor=Actor.system(), as_of=self.as_of)
        except Exception as error:
            if not cases or is_infrastructure_error(error) or (is_cancelled(error) and not self.keep_going()):
                raise
            if len(cases) == 1:
                self._fail(cases[0], error)
            else:
                middle = len(cases) // 2
                for half in (cases[:middle], cases[middle:]):
                    ids = [case.appointment.id for case in half]
                    self._attempt(partial(locks.claim_again, ids, as_of=self.as_of))
            return cases
        for case, reason in broken:
            self._fail(case, reason)
        for change in changes:
            self._count(change)
        return cases

    def _plan(self, cases: Sequence[Case]) -> tuple[list[Change], list[tuple[Case, Exception]]]:
        changes, broken = [], []
        for case in cases:
            try:
                row = lifecycle.permit(Verb.EXPIRE, case, party=Party.TIMEOUT, as_of=self.as_of)
                changes.append(lifecycle.plan(row, case, party=Party.TIMEOUT, as_of=self.as_of))
            except Exception as error:  # whatever is wrong with an item must not hurt the next
                broken.append((case, error))
        return changes, broken

    def _fail(self, case: Case, error: Exception) -> None:
        self.failed.append(case.appointment.id)
        log.error("item failed", appointment_id=str(case.appointment.id), exc_info=error)

    def _count(self, change: Change) -> None:
        self.expired += 1
        self.released += change.is_slot_released
        log.info(
            "appointment expired",
            appointment_id=str(change.after.id),
            slot_id=str(change.after.slot_id),
            calendar_event_id=str(change.after.calendar_event_id),
            tenant_id=str(change.after.tenant_id),
            slot_outcome="released" if change.is_slot_released else "expired",
        )
