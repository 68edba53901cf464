"""`python -m benchmarks.soak [PART...]`: run the parts, print their tables, write them into docs/reliability.md.

Each part runs in a process of its own, on servers of its own.
"""

import argparse
import os
import shlex
import subprocess
import sys

from rich.markdown import Markdown

from benchmarks.runner import console
from benchmarks.soak.report import Report
from dev import apache_kafka
from dev.run import MANAGE, migrate
from dev.servers import Servers

_PARTS = ("reminders", "failpoints", "chaos")
# As durable as in production, or as quick as in tests where no server is ever stopped.
_IS_FAST = {"reminders": False, "failpoints": True, "chaos": False}


def main(arguments: list[str]) -> int:
    """The exit code is 1 when a promise is broken."""
    parser = argparse.ArgumentParser(
        prog="make soak", description="Real workers under load and faults, then the proof."
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)} (default: all)")
    add("--minutes", type=float, default=10, help="chaos: how long it lasts (default: %(default)g)")
    add("--workers", type=int, default=4, help="chaos: of each kind (default: %(default)s)")
    add("--rate", type=float, default=15, help="chaos: acts of people a second (default: %(default)g)")
    add("--seed", type=int, default=1, help="chaos: of the dice (default: %(default)s)")
    add("--paths", default="", metavar="WORD", help="failpoints: only paths with the word in their name")
    add("--reminders", type=int, default=10_000, help="reminders: due in one minute (default: %(default)s)")
    add("--interval", type=float, default=60, help="reminders: of the dispatcher, in seconds (default: %(default)g)")
    add("--print-only", action="store_true", help="leave docs/reliability.md as it is")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(_PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    if len(options.parts) == 1:
        return _run(options.parts[0], options, command=f'make soak ARGS="{shlex.join(arguments)}"')
    flags = [argument for argument in arguments if argument not in _PARTS]
    codes = [
        subprocess.run([sys.executable, "-m", "benchmarks.soak", part, *flags], check=False).returncode
        for part in options.parts or _PARTS
    ]
    return 1 if any(codes) else 0


def _run(part: str, options: argparse.Namespace, *, command: str) -> int:
    if part == "chaos":
        _prefer_apache_kafka()
    with Servers("soak", fast=_IS_FAST[part]) as servers:
        os.environ.update(servers.environment, LOG_LEVEL="WARNING", DJANGO_SETTINGS_MODULE="config.settings")
        migrate(os.environ)
        subprocess.run([*MANAGE, "ensure_topics"], check=True, stdout=subprocess.DEVNULL)
        import django

        django.setup()
        os.environ["LOG_LEVEL"] = "INFO"  # of the workers: logging as in production; the screen is for the tables
        console.print(f"[bold]{part}")
        report = _measure(part, options, servers=servers, command=command)
        console.print(Markdown(report.markdown()))
        if not options.print_only:
            report.write()
    return 0 if report.holds else 1


def _measure(part: str, options: argparse.Namespace, *, servers: Servers, command: str) -> Report:
    from benchmarks.failpoints import part as failpoints
    from benchmarks.soak import chaos, reminders

    match part:
        case "reminders":
            return reminders.run(count=options.reminders, interval=options.interval, command=command)
        case "failpoints":
            return failpoints.run(word=options.paths, command=command)
        case _:
            return chaos.run(
                servers,
                minutes=options.minutes,
                workers=options.workers,
                rate=options.rate,
                seed=options.seed,
                command=command,
            )


def _prefer_apache_kafka() -> None:
    """It keeps its data when it is stopped, which the embedded broker does not; where it is not to be had, that one."""
    if "EMBEDDED_KAFKA" in os.environ or "KAFKA_BOOTSTRAP_SERVERS" in os.environ:
        return
    try:
        apache_kafka.fetch()
    except apache_kafka.Unavailable as error:
        console.print(f"The embedded broker, which is not stopped, since Apache Kafka is not to be had: {error}")
    else:
        os.environ["EMBEDDED_KAFKA"] = "apache"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
