"""The consumer between the CRM and the calendar."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from crm.job import CrmSyncJob
from workers.command import WorkerCommand
from workers.loop import Pace


class Command(WorkerCommand):
    help = (
        "Follow the CRM's deadlines and changes of assignee, and write the leads' feed from what the calendar tells. "
        "--batch-size bounds the messages of a cycle; --once reads until nothing is left. Any number of instances "
        "share the work."
    )

    def make_job(self, options: Mapping[str, Any]) -> CrmSyncJob:
        return CrmSyncJob()

    def default_pace(self) -> Pace:
        env = settings.ENV
        return Pace(
            interval=env.crm_sync_interval_seconds,
            batch_size=env.crm_sync_batch_size,
            max_duration=env.crm_sync_max_duration_seconds,
            drain=True,
        )
