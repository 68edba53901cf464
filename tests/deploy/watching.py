"""What watches the system: the alerts, the dashboard, and Prometheus's own programs where they are installed."""

import re
import shutil
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from deploy import dashboard
from tests.dev.processes import ROOT

PROMETHEUS = ROOT / "deploy/prometheus"

_NAME = re.compile(r"\b(?:calendar|django)_\w+")


def program(name: str) -> str:
    """The path of `promtool` or `prometheus`; skips the test where it is not installed."""
    if (path := shutil.which(name)) is None:
        pytest.skip(f"{name} is not installed (Debian's package prometheus has it)")
    return path


def alerts() -> dict[str, dict[str, Any]]:
    """Every rule of alerts.yml by its name."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def queries() -> set[str]:
    """Every query of the alerts and of the dashboard."""
    return {rule["expr"] for rule in alerts().values()} | dashboard.queries()


def metrics_in(queries: Iterable[str]) -> set[str]:
    """The names of the samples that the queries read."""
    return {name for query in queries for name in _NAME.findall(query)}
