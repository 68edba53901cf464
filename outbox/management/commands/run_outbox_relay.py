"""Sends what the outbox holds to Kafka."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from outbox.relay import RelayJob
from workers.command import WorkerCommand
from workers.loop import Pace

_BURST = 2_000
_MAX_DURATION_SECONDS = 30


class Command(WorkerCommand):
    batch_is = "messages a burst at most"
    help = (
        "Publish the outbox to Kafka, in order per key and at least once. Any number of relays share the work; when "
        "one dies, the others take over at once. --batch-size is the messages of a burst, --once publishes until "
        "nothing publishable is left."
    )

    def make_job(self, options: Mapping[str, Any]) -> RelayJob:
        return RelayJob()

    def default_pace(self) -> Pace:
        return Pace(
            interval=settings.ENV.outbox_poll_interval_seconds,
            batch_size=_BURST,
            max_duration=_MAX_DURATION_SECONDS,
            drain=True,
        )
