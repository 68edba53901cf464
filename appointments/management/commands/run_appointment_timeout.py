"""The worker appointment-timeout."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from appointments.timeout import TimeoutJob
from workers import flags
from workers.command import WorkerCommand
from workers.loop import Pace


class Command(WorkerCommand):
    help = (
        "Expire the appointments that nobody decided in time: the slot is given back, the event cancelled, its "
        "reminders silenced and the other services told, all at once or not at all. Any number of instances may run."
    )
    supports_preview = True

    def add_job_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--chunk-size",
            type=lambda text: flags.whole(text, least=1, most=1_000),
            default=1,
            metavar="N",
            help="appointments that share a commit at most, to work off a large backlog fast; a failing one never "
            "takes others with it (default: %(default)s)",
        )

    def make_job(self, options: Mapping[str, Any]) -> TimeoutJob:
        return TimeoutJob(chunk_size=options["chunk_size"])

    def default_pace(self) -> Pace:
        env = settings.ENV
        return Pace(
            interval=env.appointment_timeout_interval_seconds,
            batch_size=env.appointment_timeout_batch_size,
            max_duration=env.appointment_timeout_max_duration_seconds,
        )
