"""`manage.py check_invariants`."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, cast

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from core import clock
from ops import proof
from ops.invariants import INVARIANTS
from ops.proof import Finding
from workers.job import is_infrastructure_error
from workers.reporting import sentence


class Command(BaseCommand):
    help = (
        "Prove the whole stored state against the invariants, in one snapshot that neither locks nor changes anything. "
        "Exit codes: 0 all hold (work that is late is a warning), 1 a violation, or the database was away."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        try:
            with proof.snapshot():
                as_of = clock.now()
                findings = list(self._with_progress(proof.check(as_of=as_of)))
        except Exception as error:
            if not is_infrastructure_error(error):
                raise
            raise CommandError(f"The database is away: {sentence(error)}", returncode=1) from error
        violated = [finding for finding in findings if finding.is_violated]
        duration_ms = round((time.monotonic() - started) * 1000)
        if options["json"]:
            result = {"asOf": clock.iso(as_of), "isHealthy": not violated, "durationMs": duration_ms}
            self.stdout.write(orjson.dumps(result | {"invariants": [_facts(f) for f in findings]}).decode())
        elif self.stdout.isatty():
            Console(file=cast("IO[str]", self.stdout)).print(_table(findings))
        else:
            self.stdout.write("\n".join(_lines(findings)))
        if violated:
            names = ", ".join(finding.invariant.name for finding in violated)
            raise CommandError(f"{len(violated)} of {len(findings)} invariants are violated: {names}", returncode=1)

    def _with_progress(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        console = Console(file=cast("IO[str]", self.stderr), force_terminal=self.stderr.isatty())
        columns = (SpinnerColumn(), TextColumn("{task.completed}/{task.total} invariants"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True, disable=not self.stderr.isatty()) as progress:
            yield from progress.track(findings, total=len(INVARIANTS))


def _facts(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.invariant.name,
        "meaning": finding.invariant.meaning,
        "warnsOnly": finding.invariant.warns_only,
        "checkedCount": finding.checked_count,
        "violationCount": finding.violation_count,
        "first": [{"id": fault.id, "fault": fault.what} for fault in finding.first_faults],
    }


def _verdict(finding: Finding) -> str:
    if not finding.violation_count:
        return "ok"
    return "warning" if finding.invariant.warns_only else "VIOLATED"


def _first(finding: Finding) -> list[str]:
    return [f"{fault.id}: {fault.what}" for fault in finding.first_faults]


_STYLES = {"ok": "green", "warning": "yellow", "VIOLATED": "bold red"}


def _table(findings: Sequence[Finding]) -> Table:
    counts = (Column(name, justify="right") for name in ("checked", "violations"))
    table = Table("invariant", "meaning", *counts, "", "first ids")
    for finding in findings:
        verdict = _verdict(finding)
        table.add_row(
            finding.invariant.name,
            Text(finding.invariant.meaning),
            f"{finding.checked_count:,}",
            f"{finding.violation_count:,}",
            Text(verdict, style=_STYLES[verdict]),
            Text("\n".join(_first(finding))),
        )
    return table


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    yield f"{'invariant':<24} {'checked':>10} {'violations':>10}"
    for finding in findings:
        counts = f"{finding.checked_count:>10} {finding.violation_count:>10}"
        yield f"{finding.invariant.name:<24} {counts}  {_verdict(finding)}"
        yield from (f"    {line}" for line in _first(finding))
