"""`manage.py issue_token`: a bearer token for trying the API in development."""

import argparse
import datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from api import tokens
from core import clock

_MOST_MINUTES = 60 * 24 * 30


class Command(BaseCommand):
    help = "Print a bearer token of the development key. Refused in production and where JWT_JWKS_URL is set."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", type=UUID, required=True, metavar="UUID", help="the user that it speaks for")
        parser.add_argument("--tenant", type=UUID, metavar="UUID", help="the user's tenant; investors have none")
        parser.add_argument("--role", action="append", default=[], metavar="WORD", help="such as tenant_admin; repeat")
        parser.add_argument(
            "--permission", action="append", default=[], metavar="WORD", help="such as calendar.slots.manage; repeat"
        )
        parser.add_argument("--minutes", type=_minutes, default=60, help="how long it is good, 60 by default")

    def handle(self, **options: Any) -> None:
        """One line on stdout, for `TOKEN=$(manage.py issue_token ...)`."""
        try:
            token = tokens.issue(
                user_id=options["user"],
                tenant_id=options["tenant"],
                roles=options["role"],
                permissions=options["permission"],
                as_of=clock.now(),
                lifetime=datetime.timedelta(minutes=options["minutes"]),
            )
        except tokens.NoDevelopmentKey as refused:
            raise CommandError(refused.sentence) from None
        self.stdout.write(token)


def _minutes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_MOST_MINUTES}")
    return int(text)
