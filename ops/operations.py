"""The operations page: what is wrong, what waits, what the workers did. Ten queries, whatever the tables hold."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from appointments.timeout import TimeoutJob
from backoffice import show
from core import clock
from notifications.job import NotificationsJob
from ops import charts, collector, diagnosis, runbooks, workforce
from ops.charts import Bar
from ops.diagnosis import Facts, Finding
from ops.workforce import WORKERS, Record, Worker
from outbox import operations as outbox
from outbox.relay import RelayJob
from reminders.dispatch import DispatchJob

PERMISSION = "workers.view_jobrun"
# Hours that can be looked at, each with its number of bars.
WINDOWS = {1: 60, 6: 72, 24: 72}
USUAL_HOURS = 6


@dataclass(frozen=True, slots=True)
class Now:
    """A number of this moment; `url` leads to its rows."""

    label: str
    value: str
    is_bad: bool = False
    url: str = ""


def facts(*, as_of: datetime.datetime, hours: int) -> Facts:
    """All that the page tells, read as of one instant. Raises DatabaseError."""
    return Facts(
        as_of=as_of,
        hours=hours,
        values=collector.read(workforce.ALL_READINGS, as_of=as_of),
        records=workforce.records(as_of=as_of, hours=hours, buckets=WINDOWS[hours]),
        shards=outbox.status(as_of=as_of),
        unheard=workforce.unheard(as_of=as_of),
    )


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """`?hours=` is one of WINDOWS."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    asked = request.GET.get("hours", "")
    hours = int(asked) if asked.isdecimal() and int(asked) in WINDOWS else USUAL_HOURS
    as_of = clock.now()
    context = {
        **admin.site.each_context(request),
        "title": "Operations",
        "as_of": as_of,
        "hours": hours,
        "windows": list(WINDOWS),
        "runbooks": runbooks.names(),
    }
    try:
        known = facts(as_of=as_of, hours=hours)
    except DatabaseError as error:
        context["database_error"] = type(error).__name__
        return TemplateResponse(request, "ops/operations.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)
    findings = diagnosis.diagnose(known)
    context |= {
        "findings": [_finding(finding) for finding in findings],
        "cards": [_card(worker, known, findings) for worker in WORKERS],
    }
    return TemplateResponse(request, "ops/operations.html", context)


@require_safe
def runbook(request: HttpRequest, name: str) -> HttpResponse:
    """One runbook; 404 for a name that there is none of."""
    found = runbooks.read(name)
    if found is None:
        raise Http404
    context = {**admin.site.each_context(request), "title": found.title, "runbook": found}
    return TemplateResponse(request, "ops/runbook.html", context)


def _rows(model: str, query: str) -> str:
    return f"{reverse('admin:' + model.replace('.', '_') + '_changelist')}?{query}"


def _finding(finding: Finding) -> dict[str, Any]:
    name, _, section = finding.runbook.partition("#")
    return {
        "finding": finding,
        "runbook_url": f"{reverse('admin:runbook', args=[name])}#{section}" if name else "",
        "rows_url": _rows(*finding.where) if finding.where else "",
    }


def _card(worker: Worker, known: Facts, findings: list[Finding]) -> dict[str, Any]:
    record = known.records[worker.name]
    own = [finding for finding in findings if finding.worker == worker.name]
    tone = "bad" if any(finding.is_grave for finding in own) else "waiting" if own else "good"
    return {
        "worker": worker,
        "tone": tone,
        "state": {"bad": "in trouble", "waiting": "look at it", "good": "well"}[tone],
        "record": record,
        "last_success": show.moment(record.last_success_at, as_of=known.as_of),
        "rate": f"{record.done:,} {worker.unit}",
        "took": f"{_milliseconds(record.mean_ms)} on average, {_milliseconds(record.longest_ms)} at most",
        "now": list(_now(worker, known)),
        "chart": _chart(worker, record, known),
        "peak": max((bucket.done + bucket.failed for bucket in record.buckets), default=0),
        "runs_url": _rows("workers.jobrun", f"job={worker.name}"),
    }


def _milliseconds(duration: int) -> str:
    return f"{duration} ms" if duration < 1_000 else f"{duration / 1_000:.1f} s"


def _chart(worker: Worker, record: Record, known: Facts) -> Any:
    since = known.as_of - datetime.timedelta(hours=known.hours)
    width = datetime.timedelta(hours=known.hours) / len(record.buckets)
    places = [
        Bar(
            bucket.done,
            bucket.failed,
            f"{since + place * width:%H:%M}: {bucket.done:,} {worker.unit}, {bucket.failed:,} failed, "
            f"longest cycle {_milliseconds(bucket.longest_ms)}",
        )
        for place, bucket in enumerate(record.buckets)
    ]
    return charts.bars(places, label=f"{worker.unit} over the last {known.hours} h, {record.done} in all")


def _now(worker: Worker, known: Facts) -> Iterator[Now]:
    value = known.value
    match worker.name:
        case TimeoutJob.name:
            late = value(f"{TimeoutJob.metrics_prefix}_oldest_overdue_age_seconds")
            backlog = int(value(f"{TimeoutJob.metrics_prefix}_backlog"))
            overdue = _rows("appointments.appointment", "question=overdue")
            yield Now("past the deadline", f"{backlog:,}", backlog > diagnosis.BACKLOG, overdue)
            yield Now("oldest for", show.distance(late), late > diagnosis.LATE_SECONDS)
        case DispatchJob.name:
            late = value(f"{DispatchJob.metrics_prefix}_backlog_oldest_age_seconds")
            due = _rows("reminders.eventreminder", "question=due")
            yield Now("oldest due for", show.distance(late), late > diagnosis.LATE_SECONDS, due)
        case RelayJob.name:
            age = max((shard.oldest_age_seconds for shard in known.shards), default=0.0)
            relays = {shard.owner_pid for shard in known.shards} - {None}
            owned = sum(shard.owner_pid is not None for shard in known.shards)
            waiting, parked = int(value("calendar_outbox_ready")), int(value("calendar_outbox_parked"))
            yield Now("waiting", f"{waiting:,}", url=_rows("outbox.outboxmessage", "question=waiting"))
            yield Now("oldest for", show.distance(age), age > diagnosis.SLOW_OUTBOX_SECONDS)
            yield Now("parked", f"{parked:,}", parked > 0, _rows("outbox.outboxmessage", "question=parked"))
            yield Now("relays", str(len(relays)), not relays)
            yield Now("shards owned", f"{owned} of {len(known.shards)}", owned < len(known.shards))
        case _:
            if worker.name == NotificationsJob.name:
                late = value("deliveries_oldest_age_seconds")
                parked = int(value("deliveries_parked"))
                due = _rows("notifications.delivery", "question=due")
                yield Now("to be sent", f"{int(value('deliveries_pending')):,}", url=due)
                yield Now("oldest due for", show.distance(late), late > diagnosis.MAIL_SECONDS)
                yield Now("given up", f"{parked:,}", parked > 0, _rows("notifications.delivery", "question=parked"))
            behind = known.unheard[worker.name]
            is_late = behind.oldest_age_seconds > diagnosis.UNHEARD_SECONDS
            yield Now("published, not handled", f"{behind.count:,}", is_late)
