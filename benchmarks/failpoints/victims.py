"""The processes that die: children of a process that has imported everything once, so that each starts at once."""

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402

from benchmarks.failpoints.census import ROOT, Writer  # noqa: E402
from benchmarks.failpoints.scenes import Facts  # noqa: E402


def perform(
    act: Callable[[Facts], object], facts: Facts, database: dict[str, Any], log: Path, report: "Connection | None"
) -> None:
    """Do the act in that database, with stdout and stderr in `log`; tell `report` which functions of ours it ran."""
    connection.settings_dict.update(database)
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), sys.stdout.fileno())
        os.dup2(stream.fileno(), sys.stderr.fileno())
    ran: set[CodeType] = set()
    if report is not None:
        sys.setprofile(_profiler(ran))
    act(facts)
    if report is not None:
        sys.setprofile(None)
        report.send({writer for code in ran if (writer := _writer(code))})


def _profiler(ran: set[CodeType]) -> Callable[[FrameType, str, Any], None]:
    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    return note


def _writer(code: CodeType) -> Writer | None:
    path = Path(code.co_filename)
    return Writer(str(path.relative_to(ROOT)), code.co_qualname) if path.is_relative_to(ROOT) else None
