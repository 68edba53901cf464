"""The commands of the runbooks are there, and their queries fit the tables: help that fails at night is none."""

import re
import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.db import connection

from config.settings import Environment

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUNBOOKS = sorted((DOCS / "runbooks").glob("*.md"))
GUIDES = [*RUNBOOKS, DOCS / "deployment.md", DOCS / "scaling.md"]

# Variables of the image and of compose, and answers of Kafka.
NOT_SETTINGS = {"WEB_CONCURRENCY", "POSTGRES_PASSWORD", "PIN_HEALTH_PORT", "UNKNOWN_TOPIC_OR_PART"}


def blocks(path: Path) -> str:
    """What is to be typed into a shell or psql, with the outputs that are shown."""
    return "\n".join(re.findall(r"^```\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE))


def commands() -> list[str]:
    typed = [line for path in RUNBOOKS for line in re.findall(r"^\$ manage\.py (.+)$", blocks(path), re.MULTILINE)]
    told = [
        line
        for path in GUIDES
        for line in re.findall(r"`(?:manage\.py )?((?:run|check|purge)_\w+[^`]*)`", path.read_text())
    ]
    return sorted({*typed, *told})


def queries() -> list[str]:
    """Each statement with the line of the output that names its columns, where one is shown."""
    pattern = r"^(?:SELECT|UPDATE) (?!\d+$).*?;$(?:\n[ \w|]+\n-[-+]+$)?"
    return [found for path in RUNBOOKS for found in re.findall(pattern, blocks(path), re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_a_runbook_has_commands_and_queries_that_are_looked_at_below(path: Path) -> None:
    text = path.read_text()

    assert any(f"manage.py {line}" in text for line in commands())
    assert any(query in text for query in queries())


@pytest.mark.parametrize("line", commands())
def test_a_command_is_there_and_takes_these_flags(line: str) -> None:
    name, *words = shlex.split(line)

    command = load_command_class(get_commands()[name], name)

    assert command.create_parser("manage.py", name).parse_args(words)


@pytest.mark.django_db
@pytest.mark.parametrize("query", queries())
def test_a_query_fits_the_tables_and_its_output_the_query(query: str) -> None:
    statement, _, output = query.partition(";")
    header = output.strip().partition("\n")[0]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}")
        if header:
            cursor.execute(f"SELECT * FROM ({statement}) AS shown LIMIT 0")
            assert [column.name for column in cursor.description] == [name.strip() for name in header.split("|")]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_variable_that_is_named_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", " ".join(re.findall(r"`[^`\n]+`", path.read_text()))))

    assert named - NOT_SETTINGS <= {name.upper() for name in Environment.model_fields}
