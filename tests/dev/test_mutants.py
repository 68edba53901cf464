"""`make mutants`: what it counts as killed, and when it ends well. Its operators check their examples at each run."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from dev.mutants import check, document
from dev.mutants.check import CanNotCheck, Result
from dev.mutants.plan import PLAN
from dev.mutants.trial import ROOT, Mutant

FLOOR = "outbox/floor.py"
SOURCE = (ROOT / FLOOR).read_text()


def a_mutant(was: str, becomes: str) -> Mutant:
    assert was in SOURCE
    return Mutant(FLOOR, "", was, becomes, SOURCE.replace(was, becomes))


HARMLESS = a_mutant("A read above the floor", "A look above the floor")
DEADLY = a_mutant("lowest_unpublished_id - 1", "lowest_unpublished_id + 1")
BROKEN = a_mutant("class Floor:", "class Floor(:")


def check_these(monkeypatch: pytest.MonkeyPatch, *mutants: Mutant) -> Result:
    monkeypatch.setattr(check, "make", lambda modules: list(mutants))
    return check.check([FLOOR], workers=1, database_url=os.environ["DATABASE_URL"])


def test_a_mutant_is_killed_by_a_test_that_fails_or_cannot_run_and_survives_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "justified", dict)

    result = check_these(monkeypatch, HARMLESS, DEADLY, BROKEN)

    assert result.survivors == result.unjustified == [HARMLESS]
    assert "+ A look above the floor" in capsys.readouterr().out
    assert (ROOT / FLOOR).read_text() == SOURCE


def test_a_mutant_whose_tests_do_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "justified", dict)
    monkeypatch.setattr(check, "_expect_survival", lambda pool, modules: None)
    monkeypatch.setattr(check, "_TIMEOUT_SECONDS", 0.0)

    assert check_these(monkeypatch, HARMLESS).survivors == []


def test_a_justified_survivor_is_fine_and_one_justified_without_need_is_not() -> None:
    result = Result([FLOOR], Counter(), [HARMLESS, BROKEN], {HARMLESS.key: "Words.", DEADLY.key: "No reason."})

    assert (result.unjustified, result.outlived) == ([BROKEN], [DEADLY.key])


def test_tests_that_fail_without_a_mutant_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLAN, FLOOR, ("tests/outbox/no_such_test.py",))

    with pytest.raises(CanNotCheck, match=r"outbox/floor\.py fail without a mutant"):
        check_these(monkeypatch, DEADLY)


def test_a_run_renews_its_own_row_and_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "DOCUMENT", tmp_path / "mutants.md")
    monkeypatch.setattr(document, "justified", lambda: {HARMLESS.key: "Words."})
    other = "appointments/matrix.py"

    document.write(Result([FLOOR, other], Counter({FLOOR: 9, other: 7}), [], {}))
    document.write(Result([FLOOR], Counter({FLOOR: 3}), [HARMLESS], {HARMLESS.key: "Words."}))

    text = document.DOCUMENT.read_text()
    assert "| `outbox/floor.py` | 3 | 2 | 1 |" in text
    assert "| `appointments/matrix.py` | 7 | 7 | 0 |" in text
    assert "Words.\n\n- `outbox/floor.py`: `A read above the floor` → `A look above the floor`" in text


def test_what_is_planned_and_justified_exists() -> None:
    assert [
        path for path in (*PLAN, *(test for tests in PLAN.values() for test in tests)) if not (ROOT / path).exists()
    ] == []
    assert {module for module, *_ in check.justified()} <= PLAN.keys()


def test_the_page_and_the_code_are_those_of_the_reasons() -> None:
    text, given = document.DOCUMENT.read_text(), check.justified()
    counts = Counter(module for module, *_ in given)

    rows = re.findall(r"^\| `(.+?)` \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert {module: (int(made) - int(killed), int(reasons)) for module, made, killed, reasons in rows} == {
        module: (counts[module], counts[module]) for module in PLAN
    }
    assert all(f"`{was}` → `{becomes}`" in text for _, _, was, becomes in given)
    assert [was for module, _, was, _ in given if was not in (ROOT / module).read_text()] == []
