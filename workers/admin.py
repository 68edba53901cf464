"""What the workers did, in the back office."""

import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.records import RecordAdmin
from core import sql
from workers.models import SLOW_MS, JobRun, Outcome, ProcessedMessage

DAY = datetime.timedelta(days=1)

# Its index tells the jobs one by one; a DISTINCT would read a row a cycle.
_JOBS = """
WITH RECURSIVE known (job) AS (
    SELECT min(job) FROM job_runs
    UNION ALL SELECT (SELECT min(job) FROM job_runs WHERE job > known.job) FROM known WHERE job IS NOT NULL
) SELECT job FROM known WHERE job IS NOT NULL
"""


def _jobs() -> list[str]:
    return [job for (job,) in sql.fetch(_JOBS)]


class OfJob(admin.SimpleListFilter):
    title = "worker"
    parameter_name = "job"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(job, job) for job in _jobs()]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(job=self.value()).order_by("-started_at") if self.value() else queryset


def _failed_any(rows: Rows, as_of: datetime.datetime) -> Rows:
    lately = rows.filter(job__in=_jobs(), started_at__gte=as_of - DAY)
    return lately.filter(Q(outcome=Outcome.FAILED) | Q(counts__failedCount__gt=0) | Q(counts__failed__gt=0))


def _slow(rows: Rows, as_of: datetime.datetime) -> Rows:
    """A row of several cycles says how long they took in all; a slow one is never among them."""
    return rows.filter(duration_ms__gt=SLOW_MS, counts__cycles__isnull=True)


def _counts(_run: JobRun, counts: dict[str, int]) -> str:
    told = {name.removesuffix("Count"): count for name, count in counts.items() if count}
    return ", ".join(f"{count} {name}" for name, count in told.items()) or "nothing to do"


@admin.register(JobRun)
class JobRunAdmin(RecordAdmin):
    list_display = (
        columns.instant("started_at", "started"),
        columns.text("job", "worker"),
        columns.badge("outcome", "outcome"),
        columns.made("duration_ms", "took", lambda _run, ms: f"{ms:,} ms"),
        columns.made("counts", "counts", _counts),
        columns.text("error", "error"),
        columns.text("instance", "instance"),
    )
    list_filter = (
        one_of(
            Question("failed-any", "With failures, within a day", _failed_any),
            Question("slow", "Longer than 10 s", _slow),
        ),
        OfJob,
        "outcome",
    )
    search_help_text = "The id of a run, whole"

    def heading(self, record: JobRun, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        lines = f"{reverse('admin:audit_auditline_changelist')}?q={record.id}"
        return (
            show.badge(record.outcome),
            record.job,
            show.moment(record.started_at, as_of=as_of),
            f"{record.duration_ms:,} ms",
            format_html('<a href="{}">what it changed</a>', lines),
        )


@admin.register(ProcessedMessage)
class ProcessedMessageAdmin(RecordAdmin):
    list_display = (
        columns.instant("processed_at", "when"),
        columns.text("consumer", "consumer"),
        columns.text("message_id", "message"),
    )
    ids = ()
