"""The part of the soak: all paths are swept, and the code is looked through for what none of them reaches."""

from rich.markup import escape

from benchmarks.failpoints import census
from benchmarks.failpoints.paths import LEFT_OUT, PATHS
from benchmarks.failpoints.sweep import Result, stage, sweep
from benchmarks.runner import console
from benchmarks.soak.report import Report

_SHOWN = 3


def run(*, word: str, command: str) -> Report:
    """The paths whose name has the word; without a word, also what of the code no path reaches."""
    results: dict[str, Result] = {}
    with stage() as on:
        for name, path in PATHS.items():
            if word in name:
                results[name] = result = sweep(path, on=on)
                console.print(f"  {name}: {result.deaths} deaths, {result.states} states, {len(result.faults)} faults")
                for fault in result.faults[:_SHOWN]:
                    console.print(f"    [bold red]{escape(fault)}")
    writers = census.writers()
    reached = {writer for result in results.values() for writer in result.reached} & writers
    unreached = {str(writer) for writer in writers - reached}
    astray = set() if word else unreached ^ LEFT_OUT.keys()
    for writer in sorted(astray):
        console.print(f"[bold red]{'no path reaches it' if writer in unreached else 'left out in vain'}: {writer}")
    deaths = sum(result.deaths for result in results.values())
    faults = sum(len(result.faults) for result in results.values())
    rows = [
        (name, f"{result.deaths:,}", f"{result.states}", f"{len(result.faults)}") for name, result in results.items()
    ]
    head = ("path that writes", "deaths", "states seen", "faults")
    return Report(
        part="failpoints",
        command=command,
        tables=[[head, *rows, ("all", f"{deaths:,}", "", f"{faults}")]],
        holds=deaths > 0 and not (faults or astray),
        remark=(
            f"{len(writers)} functions of the code open a transaction or write. The paths run {len(reached)} of them; "
            f"{len(LEFT_OUT)} are left out, with a reason each."
        ),
    )
