"""What a polling worker is to the harness: a cycle that returns facts. The harness reports them."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry

# False once the stop was asked for or the cycle has used up its time. Asking it is also the loop's sign of life,
# so a cycle asks before every item, chunk or burst.
KeepGoing = Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class CycleResult:
    """The facts of one cycle. Subclasses add their counts; every `*_count` field is reported, in order of definition."""

    failed_count: int = 0
    is_batch_full: bool = False

    def counts(self) -> dict[str, int]:
        """`*_count` fields by name, for the log line, `job_runs` and the --once result."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name.endswith("_count")}


class JobMetrics(Protocol):
    """A job's own metrics, beside those that the harness keeps for every job."""

    def record(self, result: CycleResult) -> None:
        """After each cycle that ended normally."""

    def refresh(self, as_of: datetime.datetime) -> None:
        """Set gauges that are read from the database, after each cycle; may raise database errors."""


Result_co = TypeVar("Result_co", bound=CycleResult, covariant=True)


class Job(Protocol[Result_co]):
    """One kind of worker."""

    name: str
    """As in logs and `job_runs.job`, such as `appointment-timeout`."""
    metrics_prefix: str
    """Such as `calendar_appointment_timeout`: the harness adds `_cycle_duration_seconds`, `_errors_total` and more."""

    def cycle(self, *, as_of: datetime.datetime, limit: int, keep_going: KeepGoing) -> Result_co:
        """Work on at most `limit` items that are due as of `as_of`. Raises only when the infrastructure is at fault."""

    def make_metrics(self, registry: CollectorRegistry) -> JobMetrics:
        """Create the job's own metrics in `registry`, once a process."""
