"""`manage.py print_docs`."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ops import docs


class Command(BaseCommand):
    help = "Write the documents that are printed from the code: the configuration's and the matrix's tables."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; exit 1 naming what is not current")

    def handle(self, *args: Any, **options: Any) -> None:
        drifted = docs.drifted(settings.BASE_DIR)
        if options["check"]:
            if drifted:
                raise CommandError(f"Not current, run manage.py print_docs: {', '.join(drifted)}", returncode=1)
            return
        for path in drifted:
            target = settings.BASE_DIR / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(docs.pages()[path], encoding="utf-8")
            self.stdout.write(f"wrote {path}")
