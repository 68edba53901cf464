"""What the workers did. Operators and the operations page read it; nothing in the domain does."""

import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from core.indexes import Index

_PURGE_BATCH = 5_000
SLOW_MS = 10_000
"""A cycle that took longer has a row of its own."""


class Outcome(models.TextChoices):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class JobRun(models.Model):
    """One cycle of a worker; `id` is the run's id and the correlation id of all that the cycle wrote and logged.

    Where `counts` has `cycles`, it is the sum of so many.
    """

    id = models.UUIDField(primary_key=True)
    job = models.TextField()
    instance = models.TextField(help_text="host:pid of the worker")
    as_of = models.DateTimeField()
    started_at = models.DateTimeField()
    duration_ms = models.BigIntegerField()
    outcome = models.TextField(choices=Outcome.choices)
    counts = models.JSONField(default=dict, help_text="as in the --once result")
    error = models.TextField(blank=True, default="")

    class Meta:
        db_table = "job_runs"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(outcome__in=Outcome.values), name="ck_job_runs_outcome")
        ]
        indexes: ClassVar = [models.Index(fields=["job", "-started_at"], name="ix_job_runs_job_started_at")]

    def __str__(self) -> str:
        return f"{self.job} {self.id} {self.outcome}"


class ProcessedMessage(models.Model):
    """A message of Kafka whose effect a consumer has committed: a redelivery does nothing (see `workers.inbox`)."""

    consumer = models.TextField(help_text="consumer group")
    message_id = models.UUIDField()
    processed_at = models.DateTimeField()

    class Meta:
        db_table = "processed_messages"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["consumer", "message_id"], name="uq_processed_messages_consumer_message_id")
        ]
        indexes: ClassVar = [Index(fields=["processed_at"], name="ix_processed_messages_processed_at")]

    def __str__(self) -> str:
        return f"{self.consumer} {self.message_id}"


def purge(*, as_of: datetime.datetime) -> int:
    """Delete the runs that are older than JOB_RUNS_RETENTION_DAYS, in batches; the number deleted."""
    kept_from = as_of - datetime.timedelta(days=settings.ENV.job_runs_retention_days)
    total = 0
    while True:
        batch = JobRun.objects.filter(started_at__lt=kept_from).values("id")[:_PURGE_BATCH]
        deleted, _ = JobRun.objects.filter(id__in=batch).delete()
        total += deleted
        if deleted < _PURGE_BATCH:
            return total
