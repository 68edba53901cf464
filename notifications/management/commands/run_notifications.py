"""The consumer that tells people."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from notifications.job import NotificationsJob
from workers.command import WorkerCommand
from workers.loop import Pace


class Command(WorkerCommand):
    help = (
        "Read the calendar's messages and tell the people concerned, each fact once a person and channel. --batch-size "
        "bounds the messages and the sendings of a cycle; --once reads and sends until nothing is left that is due. "
        "Any number of instances share the work."
    )

    def make_job(self, options: Mapping[str, Any]) -> NotificationsJob:
        return NotificationsJob()

    def default_pace(self) -> Pace:
        env = settings.ENV
        return Pace(
            interval=env.notifications_interval_seconds,
            batch_size=env.notifications_batch_size,
            max_duration=env.notifications_max_duration_seconds,
            drain=True,
        )
