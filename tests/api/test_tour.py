"""docs/api-tour.md: every command runs, in order, and prints what the page says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from core import clock
from core.clock import now as real_now
from tests.api.callers import Caller, an_investor
from tests.api.web import ROOT, serving
from tests.processes import running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not here: the web process reads its own clock."""
    monkeypatch.setattr(clock, "now", real_now)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour is walked with curl")
def test_every_command_of_the_tour_prints_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/api-tour.md").read_text()
    commands, printed = ("".join(re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)) for kind in ("sh", "text"))
    with serving(tmp_path / "log") as web, running("run_appointment_timeout", "--interval", "0.5"):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            env={
                "PATH": "/usr/bin:/bin:/usr/local/bin",
                "API": f"{web.url}/api/v1",
                "AGENT": Caller().bearer(),
                "INVESTOR": an_investor().bearer(),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stdout) == (0, printed), done.stderr
