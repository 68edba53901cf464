"""A real Prometheus that scrapes processes of this machine by our own configuration."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from dev.processes import HOST, free_port
from tests.deploy.watching import PROMETHEUS
from tests.waiting import eventually


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._root = f"http://{HOST}:{port}"

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self._root}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; raises HTTPError when it refuses the query."""
        with urlopen(f"{self._root}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that the expression has now."""
        series: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return series


@contextmanager
def scraping(program: str, targets: Mapping[str, str], *, directory: Path) -> Iterator[Prometheus]:
    """Prometheus on deploy/prometheus/prometheus.yml, each job's names replaced by the address of its target."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
    for job in config["scrape_configs"]:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    flags = (
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={HOST}:{port}",
        "--log.level=warn",
    )
    with (directory / "prometheus.log").open("wb") as log, subprocess.Popen([program, *flags], stderr=log) as process:
        try:
            server = Prometheus(port)
            eventually(server.is_ready, "Prometheus is ready", timeout=30, poll=0.1)
            yield server
        finally:
            process.kill()
