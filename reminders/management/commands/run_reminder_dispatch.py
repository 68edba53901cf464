"""The worker reminder-dispatch."""

import datetime
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from reminders.dispatch import DispatchJob
from workers.command import WorkerCommand
from workers.loop import Pace


class Command(WorkerCommand):
    help = (
        "Tell the reminders that have become due, each exactly once, while its event makes sense; run after run until "
        "nothing is due, --batch-size of them a transaction. Any number of instances may run."
    )
    batch_is = "reminders a transaction at most"
    supports_preview = True

    def make_job(self, options: Mapping[str, Any]) -> DispatchJob:
        minutes = settings.ENV.reminder_stale_after_minutes
        if minutes * 60 < 2 * options.get("interval", 0):  # as the settings refuse it: late is not yet stale
            raise CommandError("--interval: REMINDER_STALE_AFTER_MINUTES must be at least two such ticks", returncode=2)
        return DispatchJob(stale_after=datetime.timedelta(minutes=minutes))

    def default_pace(self) -> Pace:
        env = settings.ENV
        return Pace(
            interval=env.reminder_dispatch_interval_seconds,
            batch_size=env.reminder_dispatch_batch_size,
            max_duration=env.reminder_dispatch_max_duration_seconds,
        )
