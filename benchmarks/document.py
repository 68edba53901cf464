"""docs/benchmarks.md: a section a subject, each with the machine that it was measured on; a run renews its own."""

import os
import platform
import re
from pathlib import Path

import confluent_kafka
import django
import psycopg

from benchmarks.runner import Report
from core import clock, sql

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_HEAD = """# Benchmarks

Printed by `make bench`; `make bench ARGS=--help` tells the choices. Contenders run side by side in one go, each on a
fresh copy of the same database, in turn, at least three times; a ratio is that of the medians. PostgreSQL is as durable
as in production (fsync on). Server, client and log share the machine, so trust the ratios, and of them those of one
table. The data is made by counting, ids are random: there is no seed to choose.
"""


def write(report: Report) -> None:
    """Put the report's section in place of the former one, or at the end."""
    text = DOCUMENT.read_text() if DOCUMENT.exists() else _HEAD
    section = f"<!-- {report.subject} -->\n{report.markdown()}\n\n_{conditions()}_\n<!-- /{report.subject} -->"
    former = re.compile(f"<!-- {report.subject} -->.*<!-- /{report.subject} -->", re.DOTALL)
    text = former.sub(lambda _: section, text) if former.search(text) else f"{text}\n{section}\n"
    DOCUMENT.write_text(text)


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
