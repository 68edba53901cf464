"""What a polling worker is to the harness: a cycle that returns facts. The harness reports them."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import psycopg
from prometheus_client import CollectorRegistry

from core import database
from workers.stopping import Stop

# False once the stop was asked for or the cycle has used up its time. Asking it is also the loop's sign of life,
# so a cycle asks before every item, chunk or burst.
KeepGoing = Callable[[], bool]

# Returns when what it looks at is usable, raises otherwise.
Check = Callable[[], object]


class JobUnavailable(Exception):
    """Something that the job depends on, beside the database, is away: the cycle fails and is tried again later."""


def is_infrastructure_error(error: BaseException) -> bool:
    """True when no item is to blame: the database, the network or what else the job depends on is away."""
    # psycopg's own classes come from connections that a job holds beside Django's: for locks, for LISTEN.
    own = (OSError, JobUnavailable, psycopg.OperationalError, psycopg.InterfaceError)
    return isinstance(error, own) or database.is_infrastructure_error(error)


@dataclass(frozen=True, kw_only=True)
class CycleResult:
    """The facts of one cycle. Subclasses add their counts; every `*_count` field is reported."""

    failed_count: int = 0
    is_batch_full: bool = False

    def counts(self) -> dict[str, int]:
        """What the log line, `job_runs` and the --once result tell: `*_count` fields by name, failures last."""
        names = [field.name for field in fields(self) if field.name.endswith("_count")]
        return {name: getattr(self, name) for name in sorted(names, key="failed_count".__eq__)}


Result = TypeVar("Result", bound=CycleResult)
Result_contra = TypeVar("Result_contra", bound=CycleResult, contravariant=True)


class JobMetrics(Protocol[Result_contra]):
    """A job's own metrics, beside those that the harness keeps for every job."""

    def record(self, result: Result_contra) -> None:
        """After each cycle that ended normally."""

    def refresh(self, as_of: datetime.datetime) -> None:
        """Set gauges that are read from the database, after each cycle that ended normally; may raise."""


class Job(ABC, Generic[Result]):
    """One kind of worker. A subclass names itself, works in `cycle`, and overrides the further hooks that it needs."""

    name: ClassVar[str]
    """As in logs and `job_runs.job`, such as `appointment-timeout`."""
    metrics_prefix: ClassVar[str]
    """Such as `calendar_appointment_timeout`: the harness adds `_cycle_duration_seconds`, `_errors_total` and more."""
    records_idle_cycles: ClassVar[bool] = True
    """False for a job that ticks many times a second, and that writes nothing under its run's id.

    Cycles whose counts are all zero leave no row and no log line; other successful ones share a row for ten seconds.
    """

    @abstractmethod
    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> Result:
        """Work on at most `limit` items that are due as of `as_of`.

        Raises only when the infrastructure is at fault (`is_infrastructure_error`); whoever catches an item's errors
        with `except Exception` lets such ones pass.
        """

    @abstractmethod
    def make_metrics(self, registry: CollectorRegistry) -> JobMetrics[Result]:
        """Create the job's own metrics in `registry`, once a process."""

    def preview(self, *, as_of: datetime.datetime, limit: int) -> Iterable[Any]:
        """For --dry-run: a dataclass instance or a mapping an item, in the order of `cycle`. Runs READ ONLY."""
        raise NotImplementedError(f"{self.name} has no preview")

    def wait_for_work(self, seconds: float, *, stop: Stop) -> None:
        """Return at the latest after `seconds`, or when `stop.asked`; earlier when the job knows of work.

        Call `stop.beat()` at least once a second meanwhile. It is not asked after a failed cycle: back-off is.
        """
        stop.wait(seconds)

    def keep_house(self, *, as_of: datetime.datetime) -> None:
        """Delete what the job keeps no longer; about once an hour, after a cycle that ended normally. May raise."""

    def readiness_checks(self) -> Mapping[str, Check]:
        """What /readyz looks at beside the database; called from other threads than the cycle's."""
        return {}

    def close(self) -> None:
        """Let go of what the job holds (connections, producers), once, after the last cycle; must be quick."""
