"""Shows the state of the outbox."""

from typing import Any

from django.core.management.base import BaseCommand

from core import clock
from outbox import operations
from workers import outages
from workers.preview import print_rows


class Command(BaseCommand):
    help = (
        "Print each shard of the outbox: messages ready, the age of the oldest, the database session of the relay that "
        "owns it, blocked keys and parked messages. A table on a terminal, JSON lines elsewhere. Exit codes: 0 done; "
        "1 the database was away."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        with outages.told():
            print_rows(operations.status(as_of=clock.now()), out=self.stdout)
