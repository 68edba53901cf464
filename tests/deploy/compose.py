"""The compose file as data."""

from typing import Any

import yaml

from tests.dev.processes import ROOT

PATH = ROOT / "deploy/compose.yml"
PORT = "8000"


def ours() -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(PATH.read_text())["services"]
    return {name: service for name, service in services.items() if service["image"] == "pin-calendar:dev"}


def roles() -> dict[str, dict[str, Any]]:
    """Those of them that go on running."""
    return {name: service for name, service in ours().items() if "deploy" in service}
