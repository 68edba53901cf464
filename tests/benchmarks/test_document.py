"""docs/benchmarks.md: what a run of some subjects leaves of the rest, and what it says of a missed target."""

from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.runner import Report, Row

ORDER = ["relay", "poll"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(document, "DOCUMENT", tmp_path / "benchmarks.md")
    monkeypatch.setattr(document, "conditions", lambda: "a machine")
    return tmp_path / "benchmarks.md"


def report(subject: str, title: str, *rows: Row) -> Report:
    return Report(subject, title, f"make bench ARGS={subject}", rows, [("ours", [1.0, 2.0, 3.0])], "a second")


def titles(text: str) -> list[str]:
    return [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]


def test_a_run_renews_its_own_section_and_leaves_the_others(written):
    document.write(report("relay", "Relay"), order=ORDER)
    document.write(report("poll", "Poll"), order=ORDER)

    document.write(report("relay", "Relay, again"), order=ORDER)

    assert titles(written.read_text()) == ["Relay, again", "Poll"]


def test_sections_stand_in_the_order_of_the_subjects_whatever_was_measured_first(written):
    document.write(report("poll", "Poll"), order=ORDER)
    document.write(report("relay", "Relay"), order=ORDER)

    assert titles(written.read_text()) == ["Relay", "Poll"]


def test_a_missed_target_is_explained_and_a_met_one_is_not(written):
    missed = Row("relay", "bare producer", 0.2, 0.3, why="the disk is slow.")
    met = Row("dispatcher", "loop", 30, 28, why="nothing to explain.")

    document.write(report("relay", "Relay", missed, met), order=ORDER)

    text = written.read_text()
    assert "| relay | bare producer | 0.20 | >= 0.3 | **missed** |" in text
    assert "Missed, relay: the disk is slow." in text
    assert "nothing to explain" not in text
