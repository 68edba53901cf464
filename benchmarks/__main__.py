"""`python -m benchmarks [SUBJECT...]`: measure, print, write docs/benchmarks.md. `make bench` runs them all."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr

from rich.markdown import Markdown

from benchmarks import database
from benchmarks.runner import Report, console

_LEAST_RUNS = 3


def main() -> int:
    """The exit code is 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure, print, write docs/benchmarks.md.")
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="timeout, workers, reminders, history, showcase, booking, relay, latency, poll (default: all)",
    )
    parser.add_argument("--runs", type=int, default=3, help="of each contender, at least 3 (default: %(default)s)")
    parser.add_argument(
        "--items",
        type=int,
        help="timeout, workers: overdue (20000); reminders: due (50000); relay, latency: messages (100000, 1000)",
    )
    parser.add_argument("--history", type=int, default=5_000_000, help="rows of history (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=1_000_000, help="of the long showcase (default: %(default)s)")
    parser.add_argument("--published", type=int, default=10_000_000, help="poll: messages kept (default: %(default)s)")
    parser.add_argument("--print-only", action="store_true", help="leave docs/benchmarks.md as it is")
    options = parser.parse_args()
    if options.runs < _LEAST_RUNS and not options.print_only:
        parser.error(f"argument --runs: what is written down is of at least {_LEAST_RUNS}; fewer go with --print-only")
    with database.servers() as environment:
        os.environ.update(environment, LOG_LEVEL="INFO", DJANGO_SETTINGS_MODULE="config.settings")
        return _measure(parser, options)


def _measure(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)

    from benchmarks import document, history, latency, poll, relay, reminders, timeout, web, workers

    subjects: dict[str, Callable[[], Report]] = {
        "timeout": lambda: timeout.measure(runs=options.runs, items=options.items or 20_000),
        "workers": lambda: workers.measure(runs=options.runs, items=options.items or 20_000),
        "reminders": lambda: reminders.measure(runs=options.runs, items=options.items or 50_000),
        "history": lambda: history.measure(history=options.history),
        "showcase": lambda: web.measure_showcase(runs=options.runs, slots=options.slots),
        "booking": lambda: web.measure_booking(runs=options.runs),
        "relay": lambda: relay.measure(runs=options.runs, items=options.items or 100_000),
        "latency": lambda: latency.measure(runs=options.runs, items=options.items or 1_000),
        "poll": lambda: poll.measure(published=options.published),
    }
    if unknown := set(options.subjects) - set(subjects):
        parser.error(f"no subject {', '.join(sorted(unknown))}; there are {', '.join(subjects)}")
    missed = 0
    for name in options.subjects or subjects:
        console.print(f"[bold]{name}")
        # The log at its usual level, written to a file as in real life, though nobody keeps it.
        with open(os.devnull, "w", buffering=1) as log, redirect_stderr(log):
            report = subjects[name]()
        console.print(Markdown(report.markdown()))
        missed += sum(not row.is_met for row in report.rows)
        if not options.print_only:
            document.write(report, order=list(subjects))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
