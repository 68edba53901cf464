"""The consumer `run_crm_sync`: the CRM's deadlines and assignees in, the leads' feed out."""

from collections.abc import Mapping

from django.db import transaction
from prometheus_client import CollectorRegistry, Counter

from appointments.booking import Busy
from contracts.base import Contract
from contracts.crm import AssigneeChanged, BookingDeadlineChanged
from core import logs
from crm import assignees, deadlines, lead_feed
from workers.consumer import Consumer, Reaction, Received
from workers.job import JobUnavailable

log = logs.get(__name__)


class CrmMetrics:
    """All of them exist from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deadlines = Counter(
            "calendar_crm_sync_deadlines", "Deadline messages by what they came to", ["applied"], registry=registry
        )
        self.conflicts = Counter(
            "calendar_crm_sync_reassignment_conflicts", "Appointments that a change of assignee left", registry=registry
        )


class CrmSyncJob(Consumer):
    """Reads both ways in one group: what comes from the CRM, and what the calendar tells of appointments."""

    name = "crm-sync"
    metrics_prefix = "calendar_crm_sync"
    group_name = "crm-sync"

    def __init__(self) -> None:
        super().__init__()
        self._counters = CrmMetrics(CollectorRegistry())

    def make_metrics(self, registry: CollectorRegistry) -> "CrmSyncJob":
        super().make_metrics(registry)
        self._counters = CrmMetrics(registry)
        return self

    def reactions(self) -> Mapping[type[Contract], Reaction]:
        return {
            BookingDeadlineChanged: self._follow_deadline,
            AssigneeChanged: self._follow_assignee,
            **dict.fromkeys(lead_feed.CONTRACTS, _append),
        }

    def _follow_deadline(self, message: BookingDeadlineChanged, received: Received) -> None:
        applied = deadlines.apply(message, as_of=received.as_of)

        def tell() -> None:
            self._counters.deadlines.labels(applied.value).inc()
            log.info(
                "crm deadline applied",
                booking_id=str(message.booking_id),
                tenant_id=str(message.tenant_id),
                revision=message.revision,
                state=message.state.value,
                applied=applied.value,
            )

        transaction.on_commit(tell, robust=True)

    def _follow_assignee(self, message: AssigneeChanged, received: Received) -> None:
        try:
            done = assignees.apply(message, as_of=received.as_of)
        except Busy as error:  # rows in other hands: no fault of the message
            raise JobUnavailable(error.sentence) from error
        conflicts = len(done.conflicting_appointment_ids) if done else 0

        def tell() -> None:
            self._counters.conflicts.inc(conflicts)
            log.info(
                "crm assignee applied" if done else "crm assignee ignored",
                tenant_id=str(message.tenant_id),
                revision=message.revision,
                moved_appointments=len(done.appointment_ids) if done else 0,
                moved_events=len(done.event_ids) if done else 0,
                conflicts=conflicts,
            )

        transaction.on_commit(tell, robust=True)


def _append(message: lead_feed.Told, received: Received) -> None:
    lead_feed.append(message, as_of=received.as_of)
