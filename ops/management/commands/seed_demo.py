"""`manage.py seed_demo`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core import clock
from core.errors import Refused
from ops import demo_data


class Command(BaseCommand):
    help = (
        "Add a small invented data set around the present moment: an agency, consultants, investors, two weeks of "
        "slots and requests in several states. A second run adds nothing. Refused in production."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            seeded = demo_data.seed(clock.now())
        except Refused as error:
            raise CommandError(error.sentence) from error
        what = f"{len(seeded.slot_ids)} slots and {len(seeded.appointment_ids)} appointments"
        self.stdout.write(f"Added {what}." if seeded.is_new else f"Nothing added: {what} are there already.")
