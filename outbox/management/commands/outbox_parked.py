"""Lists, retries and skips messages that can't be published."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core import clock
from core.actors import Actor
from core.errors import Refused
from outbox import operations
from workers import outages
from workers.job import JobUnavailable
from workers.preview import print_rows


class Command(BaseCommand):
    help = (
        "Messages that Kafka refused, and those that wait behind them. `list` shows the blocked keys; `retry` makes "
        "their next attempt due at once; `skip` gives up the first message of a key, after copying it to <topic>.dlt, "
        "so that the others go out. Exit codes: 0 done; 1 Kafka or the database was away or refused; 2 no such blocked "
        "key or a bad argument."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="list|retry|skip")
        actions.add_parser("list", help="every blocked key with its error and the time of its next attempt")
        retry = actions.add_parser("retry", help="retry one blocked key, or all")
        which = retry.add_mutually_exclusive_group(required=True)
        which.add_argument("--all", action="store_true", help="every blocked key")
        which.add_argument("--key", nargs=2, metavar=("TOPIC", "KEY"), help="this key of this topic")
        skip = actions.add_parser("skip", help="skip the first parked message of a key")
        skip.add_argument("topic")
        skip.add_argument("key")

    def handle(self, *args: Any, **options: Any) -> None:
        as_of, actor, by = clock.now(), Actor.operator(), f"shell:{getpass.getuser()}"
        try:
            with outages.told():
                match options["action"]:
                    case "list":
                        print_rows(operations.blocked_keys(), out=self.stdout)
                    case "retry":
                        count = operations.retry(*(options["key"] or ()), actor=actor, by=by, as_of=as_of)
                        self.stdout.write(f"{count} keys will be retried by the relay")
                    case "skip":
                        skipped = operations.skip(options["topic"], options["key"], actor=actor, by=by, as_of=as_of)
                        self.stdout.write(f"message {skipped} skipped")
        except JobUnavailable as error:
            raise CommandError(str(error), returncode=1) from error
        except operations.CannotDeadLetter as error:
            raise CommandError(error.sentence, returncode=1) from error
        except Refused as error:
            raise CommandError(error.sentence, returncode=2) from error
