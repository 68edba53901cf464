"""What is wrong, in words, and where the help stands: a pure function of what the operations page has read.

The limits are those of the alerts (`deploy/prometheus/alerts.yml`), without their patience.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from appointments.timeout import TimeoutJob
from backoffice.show import distance
from crm.job import CrmSyncJob
from notifications.job import NotificationsJob
from ops.collector import OPEN_CONFLICTS
from ops.workforce import WORKERS, Record, Unheard
from outbox.operations import ShardStatus
from outbox.relay import RelayJob
from reminders.dispatch import DispatchJob

SILENT_SECONDS = 240.0
LATE_SECONDS = UNHEARD_SECONDS = 300.0
MAIL_SECONDS = 1_800.0
SLOW_OUTBOX_SECONDS = 60.0
BACKLOG = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """`runbook` is name#section; `where` the list that shows the rows, as (`app_label.name`, query)."""

    worker: str
    sentence: str
    runbook: str = ""
    where: tuple[str, str] | None = None
    is_grave: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known, as of one instant; `values` are the readings by name."""

    as_of: datetime.datetime
    hours: int
    values: Mapping[str, float | None]
    records: Mapping[str, Record]
    shards: Sequence[ShardStatus]
    unheard: Mapping[str, Unheard]

    def value(self, name: str) -> float:
        return self.values.get(name) or 0.0


def diagnose(facts: Facts) -> list[Finding]:
    """The findings, the grave ones first; none when all is well."""
    findings = [*_silence(facts), *_lateness(facts), *_outbox(facts), *_consumers(facts), *_failures(facts)]
    if conflicts := int(facts.value(OPEN_CONFLICTS)):
        findings.append(
            Finding(
                "",
                f"{_count(conflicts, 'appointment')} left behind by a reassignment: somebody must decide.",
                runbook="consumers#appointments-that-a-reassignment-left",
                where=("appointments.reassignmentconflict", "question=open"),
                is_grave=False,
            )
        )
    return sorted(findings, key=lambda finding: not finding.is_grave)


def _count(number: int, noun: str, *, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_SILENT = {
    TimeoutJob.name: ("requests do not lapse", "the-worker-does-not-run-or-hangs"),
    DispatchJob.name: ("no reminder is sent", "what-to-do"),
}


def _silence(facts: Facts) -> Iterator[Finding]:
    for worker in WORKERS:
        if not worker.ticks:
            continue
        last = facts.records[worker.name].last_success_at
        silent_for = (facts.as_of - last).total_seconds() if last else None
        if silent_for is not None and silent_for <= SILENT_SECONDS:
            continue
        since = f"for {distance(silent_for)}" if silent_for is not None else "ever, as far as is known"
        harm, section = _SILENT[worker.name]
        yield Finding(
            worker.name,
            f"No cycle of {worker.command} has succeeded {since}: {harm}.",
            runbook=f"{worker.runbook}#{section}",
            where=("workers.jobrun", f"job={worker.name}"),
        )


def _lateness(facts: Facts) -> Iterator[Finding]:
    backlog = int(facts.value(f"{TimeoutJob.metrics_prefix}_backlog"))
    overdue = facts.value(f"{TimeoutJob.metrics_prefix}_oldest_overdue_age_seconds")
    if backlog > BACKLOG or (backlog and overdue > LATE_SECONDS):
        yield Finding(
            TimeoutJob.name,
            f"{_count(backlog, 'request')} past the deadline, the oldest for {distance(overdue)}.",
            runbook="appointment-timeout#the-backlog-grows-though-it-runs",
            where=("appointments.appointment", "question=overdue"),
        )
    late = facts.value(f"{DispatchJob.metrics_prefix}_backlog_oldest_age_seconds")
    if late > LATE_SECONDS:
        yield Finding(
            DispatchJob.name,
            f"A reminder has been due for {distance(late)} and is not sent.",
            runbook="reminder-dispatch#how-to-see-it",
            where=("reminders.eventreminder", "question=due"),
        )
    mail = facts.value("deliveries_oldest_age_seconds")
    if mail > MAIL_SECONDS:
        yield Finding(
            NotificationsJob.name,
            f"A delivery has been due for {distance(mail)}: is run_notifications alive, does the mail server answer?",
            runbook="consumers#the-mail-server-is-away-or-slow",
            where=("notifications.delivery", "question=due"),
        )


def _outbox(facts: Facts) -> Iterator[Finding]:
    waiting = [shard for shard in facts.shards if shard.ready]
    unowned = [shard for shard in facts.shards if shard.owner_pid is None]
    if len(unowned) == len(facts.shards):
        yield Finding(RelayJob.name, "No relay is running: nothing is published.", runbook="outbox-backlog#no-relay")
    elif stuck := [shard for shard in unowned if shard.oldest_age_seconds > SLOW_OUTBOX_SECONDS]:
        yield Finding(
            RelayJob.name,
            f"{_count(len(stuck), 'shard')} with waiting messages and no relay that owns them.",
            runbook="outbox-backlog#how-to-see-it",
        )
    age = max((shard.oldest_age_seconds for shard in waiting), default=0.0)
    if age > SLOW_OUTBOX_SECONDS:
        yield Finding(
            RelayJob.name,
            f"The oldest message has been waiting for {distance(age)}.",
            runbook="outbox-backlog#how-to-see-it",
            where=("outbox.outboxmessage", "question=waiting"),
        )
    if keys := int(facts.value("calendar_outbox_blocked_keys")):
        parked = int(facts.value("calendar_outbox_parked"))
        yield Finding(
            RelayJob.name,
            f"{_count(keys, 'message')} can't be published; with those behind, {_count(parked, 'message')} parked.",
            runbook="outbox-backlog#parked-messages",
            where=("outbox.outboxmessage", "question=blocking"),
        )
    writing = facts.value("writing_age_seconds")
    if writing > LATE_SECONDS:
        yield Finding(
            RelayJob.name,
            f"A transaction has been writing for {distance(writing)} and holds the relay's floor.",
            runbook="outbox-backlog#the-floor-is-held",
            is_grave=False,
        )


def _consumers(facts: Facts) -> Iterator[Finding]:
    for worker in WORKERS:
        behind = facts.unheard.get(worker.name)
        if behind and behind.oldest_age_seconds > UNHEARD_SECONDS:
            yield Finding(
                worker.name,
                f"{worker.command} has not handled {_count(behind.count, 'published message')}, the oldest told "
                f"{distance(behind.oldest_age_seconds)} ago.",
                runbook="consumers#a-consumer-does-not-run-or-makes-no-progress",
            )
    if parked := int(facts.value("deliveries_parked")):
        yield Finding(
            NotificationsJob.name,
            f"{_count(parked, 'delivery', plural='deliveries')} given up: people were not told.",
            runbook="consumers#deliveries-that-were-given-up",
            where=("notifications.delivery", "question=parked"),
            is_grave=False,
        )


_POISON = {
    TimeoutJob.name: "a-poison-item-failedcount-above-0",
    DispatchJob.name: "what-to-do",
    RelayJob.name: "parked-messages",
    NotificationsJob.name: "messages-that-were-put-aside",
    CrmSyncJob.name: "messages-that-were-put-aside",
}


def _failures(facts: Facts) -> Iterator[Finding]:
    for worker in WORKERS:
        if failed := facts.records[worker.name].failed:
            yield Finding(
                worker.name,
                f"{worker.command} failed {_count(failed, 'time')} in the last {_span(facts.hours)}.",
                runbook=f"{worker.runbook}#{_POISON[worker.name]}",
                where=("workers.jobrun", f"job={worker.name}&question=failed-any"),
                is_grave=False,
            )


def _span(hours: int) -> str:
    return "hour" if hours == 1 else f"{hours} hours"
