"""Measuring contenders side by side: interleaved runs, medians, tables of ratios."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from rich.console import Console

console = Console(width=140, highlight=False)
_MOST_FIGURES = 12


@dataclass(frozen=True)
class Contender:
    """One way of doing the work. `run` does it and returns the number of items done; `prepared` is around it."""

    name: str
    run: Callable[[], int]
    prepared: Callable[[], AbstractContextManager[None]]
    check: Callable[[int], None] = lambda _items: None


def rates(contenders: Sequence[Contender], *, runs: int) -> dict[str, list[float]]:
    """Items a second of each run of each contender: all of them in turn, and again, so that noise meets all alike."""
    measured: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(runs):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            with contender.prepared():
                started = time.perf_counter()
                items = contender.run()
                seconds = time.perf_counter() - started
                contender.check(items)
            measured[contender.name].append(items / seconds)
            console.print(f"  {contender.name}: {items} in {seconds:.2f} s, {items / seconds:,.0f}/s")
    return measured


@dataclass(frozen=True)
class Row:
    """A line of a table: what was measured, against what, and whether the ratio is what was promised."""

    what: str
    against: str
    ratio: float
    target: float
    is_at_most: bool = False
    unit: str = ""
    why: str = ""
    """What a profile says of it; printed when the target is missed."""

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.target if self.is_at_most else self.ratio >= self.target

    def cells(self) -> tuple[str, ...]:
        sign = "<=" if self.is_at_most else ">="
        verdict = "met" if self.is_met else "**missed**"
        return self.what, self.against, f"{self.ratio:.2f}{self.unit}", f"{sign} {self.target:g}{self.unit}", verdict


@dataclass(frozen=True)
class Report:
    """What one subject has to say: its ratios, the figures behind them, the command that shows them."""

    subject: str
    title: str
    command: str
    rows: Sequence[Row]
    figures: Sequence[tuple[str, Sequence[float]]]
    unit: str
    remarks: Sequence[str] = field(default=())

    def markdown(self) -> str:
        lines = [
            f"## {self.title}",
            "",
            f"`{self.command}`",
            "",
            "| what | against | ratio | target | |",
            "|---|---|---|---|---|",
            *("| " + " | ".join(row.cells()) + " |" for row in self.rows),
            "",
            f"| {self.unit} | median | each run |",
            "|---|---|---|",
            *(f"| {name} | {_figure(statistics.median(runs))} | {_figures(runs)} |" for name, runs in self.figures),
        ]
        missed = (f"Missed, {row.what}: {row.why}" for row in self.rows if row.why and not row.is_met)
        for remark in (*missed, *self.remarks):
            lines += ["", remark]
        return "\n".join(lines)


def _figures(runs: Sequence[float]) -> str:
    if len(runs) > _MOST_FIGURES:
        return f"{_figure(min(runs))} to {_figure(max(runs))}, {len(runs)} of them"
    return ", ".join(_figure(value) for value in runs)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def ratio(measured: dict[str, list[float]], one: str, other: str) -> float:
    """Of the medians."""
    return statistics.median(measured[one]) / statistics.median(measured[other])
