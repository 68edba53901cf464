"""docs/benchmarks.md: a section a subject, each with the machine that it was measured on; a run renews its own."""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import django
import psycopg

from benchmarks.runner import Report
from core import clock, sql

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_HEAD = """# Benchmarks

Printed by `make bench`; `make bench ARGS=--help` tells the choices. Contenders run side by side in one go, in turn, at
least three times; a ratio is that of the medians. Each run has a fresh copy of the same database, but for two subjects
that compare databases: history (forty cycles on each) and showcase (five times as many runs). A poll is looked at nine
times, in pages, which do not depend on the clock. PostgreSQL is as durable as in production (fsync on), and at least
version 18, whose `uuidv7()` makes the data. Server, client and log share the machine, so trust the ratios, and of them
those of one table. The data is made by counting, ids are random: there is no seed to choose. Published packages are
installed into `.peers`, each in an environment of its own; PEER_PYTHON names a Python 3.12 for the one that needs it.
"""
_SECTION = re.compile(r"<!-- (\w+) -->.*?<!-- /\1 -->", re.DOTALL)


def write(report: Report, *, order: Sequence[str]) -> None:
    """Put the report's section in place of the former one; the sections of other subjects stay as they are."""
    text = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    sections = {found[1]: found[0] for found in _SECTION.finditer(text)}
    name = report.subject
    sections[name] = f"<!-- {name} -->\n{report.markdown()}\n\n_{conditions()}_\n<!-- /{name} -->"
    DOCUMENT.write_text(_HEAD + "".join(f"\n{sections[name]}\n" for name in order if name in sections))


def conditions() -> str:
    """When, on what, with which versions."""
    [(server, fsync, commit)] = sql.fetch(
        "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return (
        f"{clock.now():%Y-%m-%d}; {_processor()}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} "
        f"{platform.release().split('-')[0]}; PostgreSQL {server} (fsync {fsync}, synchronous_commit {commit}), Python "
        f"{platform.python_version()}, Django {django.__version__}, psycopg {psycopg.__version__} "
        f"({psycopg.pq.__impl__}), confluent-kafka {confluent_kafka.__version__}; load average at the end "
        f"{os.getloadavg()[1]:.1f}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
