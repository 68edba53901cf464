"""The alerts fire when they should, and only then; whoever is woken finds the section that helps."""

import re
import subprocess

import pytest
import yaml

from ops.workforce import WORKERS
from tests.deploy.watching import PROMETHEUS, alerts, program
from tests.dev.processes import ROOT


def test_the_rules_pass_their_tests() -> None:
    done = subprocess.run(
        [program("promtool"), "test", "rules", "alerts.test.yml"],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_is_sound() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "config", "prometheus.yml"],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", alerts())
def test_an_alert_is_seen_firing_for_its_metric_and_for_silence_and_not_firing(name: str) -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts.test.yml").read_text())["tests"]
    expected = [
        (bool(test["input_series"]), bool(case["exp_alerts"]))
        for test in tests
        for case in test["alert_rule_test"]
        if case["alertname"] == name
    ]
    assert {(True, True), (True, False), (False, True)} <= set(expected)


@pytest.mark.parametrize("command", [worker.command for worker in WORKERS])
def test_a_killed_worker_is_noticed_within_five_minutes_of_its_last_success(command: str) -> None:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    evaluation = _seconds(config["global"]["evaluation_interval"])
    after = []
    for rule in alerts().values():
        silence = re.match(r"time\(\) - max\(\w+_last_success_timestamp_seconds\) > (\d+)", rule["expr"])
        is_told = silence or rule["expr"].startswith("sum(calendar_outbox_shards_owned) < 1")
        if is_told and command in rule["annotations"]["summary"]:
            # What lasts is seen by the next evaluation, and then once more each.
            after.append((int(silence[1]) if silence else evaluation) + _seconds(rule["for"]) + evaluation)

    assert after
    assert min(after) <= 300


@pytest.mark.parametrize("name", alerts())
def test_an_alert_names_a_section_of_a_runbook(name: str) -> None:
    path, _, anchor = alerts()[name]["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    assert anchor in {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    """As GitHub and most others make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]
