"""Prints rows that people ask for, such as what a cycle would do: a table on a terminal, JSON lines elsewhere."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

import orjson
from django.core.management.base import OutputWrapper
from rich.console import Console
from rich.table import Table
from rich.text import Text

from core import clock, logs


def print_rows(rows: Iterable[Any], *, out: OutputWrapper) -> None:
    """`rows` are dataclass instances or mappings, alike in their fields."""
    facts = (_facts(row) for row in rows)
    if out.isatty():
        _print_table(list(facts), out=out)
    else:
        for row in facts:
            out.write(orjson.dumps(row, default=str).decode())


def _facts(row: Any) -> dict[str, Any]:
    # Not asdict(): it would copy values deeply.
    fields = row if isinstance(row, Mapping) else {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}
    return {logs.camel(name): _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    return clock.iso(value) if isinstance(value, datetime.datetime) else value


def _print_table(rows: list[dict[str, Any]], *, out: OutputWrapper) -> None:
    console = Console(file=cast("IO[str]", out))
    if not rows:
        console.print("Nothing to do.")
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    console.print(table)
    console.print(f"{len(rows)} in all; nothing was changed.", highlight=False)
