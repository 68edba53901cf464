"""docs/cases.md: each case names tests, and each of them exists."""

import ast
import re

import pytest
from django.conf import settings

PAGE = (settings.BASE_DIR / "docs/cases.md").read_text()


def rows() -> list[tuple[str, str]]:
    """Case and tests of every line of the tables."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {len(row) for row in cells} == {2}
    return [(case, tests) for case, tests in cells if (case, tests) not in {("case", "test"), ("---", "---")}]


def names_in(path: str) -> set[str]:
    """The tests of the file, as pytest collects them."""
    return {
        node.name
        for node in ast.parse((settings.BASE_DIR / path).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_no_part_of_the_page_is_without_cases() -> None:
    """More than sixty of them are from the field, and no criterion is left out."""
    field, _, asked_for = PAGE.partition("## Acceptance criteria\n")
    parts = re.split("^### ", PAGE, flags=re.MULTILINE)[1:]

    assert field.count("| `tests/") > 60
    assert set(re.findall(r"^\| (AC?\d|INV-\w+-\d):", asked_for, re.MULTILINE)) == {
        *(f"AC{number}" for number in range(1, 9)),
        *(f"A{number}" for number in range(3, 7)),
        *("INV-SLT-3", "INV-SLT-5", "INV-APT-6", "INV-CAL-3", "INV-REM-1", "INV-REM-2"),
    }
    assert [part.partition("\n")[0] for part in parts if "| `tests/" not in part] == []


def test_every_case_is_told_once() -> None:
    cases = [case for case, _ in rows()]

    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize(("case", "tests"), rows())
def test_every_case_has_tests_that_exist(case: str, tests: str) -> None:
    named = [re.fullmatch(r"`(tests/[\w/]+/test_\w+\.py)::(test_\w+)`", test) for test in tests.split("<br>")]

    assert all(named), tests
    for path, name in (match.groups() for match in named if match):
        assert name in names_in(path), f"{case}: {path} has no {name}"
