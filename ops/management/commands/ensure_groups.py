"""Makes the groups of the back office."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from ops import groups


class Command(BaseCommand):
    help = (
        "Make the groups `viewers` and `operators` of the back office, or give them what they lack; run it after every "
        "migrate. Nothing is taken away. Admin users need a group and the staff status. Exit code 0 when done."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            given = groups.ensure()
        self.stdout.write(", ".join(f"{name}: {count} permissions" for name, count in given.items()))
