"""Makes the Kafka topics."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from outbox import topics
from workers.job import JobUnavailable
from workers.topics import ensure


class Command(BaseCommand):
    help = (
        "Create the topics that the outbox publishes to, and their dead-letter topics, with KAFKA_TOPIC_PARTITIONS, "
        "KAFKA_TOPIC_REPLICATION and KAFKA_TOPIC_RETENTION_HOURS. Topics that exist are left as they are, so it may "
        "run before every start. Exit codes: 0 all exist; 1 the broker was away or refused."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = topics.names()
        try:
            made = ensure(wanted)
        except JobUnavailable as error:
            raise CommandError(str(error), returncode=1) from error
        self.stdout.write(f"{len(made)} topics created, {len(wanted) - len(made)} were there")
