"""Deletes what was published long ago."""

from typing import Any

from django.core.management.base import BaseCommand

from core import clock
from outbox.housekeeping import Purge
from workers import outages


class Command(BaseCommand):
    help = (
        "Delete published messages older than OUTBOX_RETENTION_DAYS, in batches of 5000. What is still to be "
        "published, or parked, is never deleted. The relay does the same each hour; running both at once is harmless. "
        "Exit codes: 0 done; 1 the database was away, or busy with the rows: what was deleted so far is."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        as_of, purge, deleted = clock.now(), Purge(), 0
        purge.start()
        with outages.told():
            while purge.is_running:
                deleted += purge.step(as_of=as_of)
                if self.stdout.isatty():
                    self.stderr.write(f"\r{deleted} messages deleted", ending="")
        self.stdout.write(f"{deleted} messages deleted")
