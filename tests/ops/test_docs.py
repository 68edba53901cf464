"""`manage.py print_docs`: what the documents say is what the code does."""

import io
from typing import Literal
from uuid import UUID

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from pydantic import BaseModel, Field, SecretStr

from appointments.matrix import MATRIX
from ops import docs


@pytest.fixture
def elsewhere(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    return tmp_path


def test_the_committed_documents_are_current():
    assert docs.drifted(settings.BASE_DIR) == []


def test_what_is_printed_is_current_until_it_is_edited(elsewhere):
    out = io.StringIO()
    call_command("print_docs", stdout=out)
    assert out.getvalue().splitlines() == ["wrote docs/configuration.md", "wrote docs/matrix.md"]
    call_command("print_docs", "--check")

    matrix = elsewhere / "docs/matrix.md"
    matrix.write_text(matrix.read_text().replace("Declined", "Denied"))

    with pytest.raises(CommandError, match=r"docs/matrix\.md") as failure:
        call_command("print_docs", "--check")
    assert failure.value.returncode == 1
    assert "configuration" not in str(failure.value)


def test_a_missing_document_is_named_and_not_written_by_the_check(elsewhere):
    with pytest.raises(CommandError, match=r"docs/configuration\.md, docs/matrix\.md"):
        call_command("print_docs", "--check")

    assert list(elsewhere.iterdir()) == []


def test_every_variable_is_listed_once_with_what_it_takes():
    class Environment(BaseModel):
        needed: str = Field(description="Needed.")
        secret: SecretStr = Field(SecretStr("hidden-value"), min_length=4, description="Hush.")
        level: Literal["LOW", "HIGH"] = Field("LOW", description="One | other.")
        count: int = Field(3, ge=1, le=9, description="How many.")
        is_on: bool = Field(False, description="On.")
        link: str | None = Field(None, description="Where.")
        tenant: UUID = Field(UUID(int=1), description="Whose.")

    page = docs.configuration(Environment)

    assert [line for line in page.splitlines() if line.startswith("|")][2:] == [
        "| `NEEDED` | text | required | Needed. |",
        "| `SECRET` | secret text, length ≥ 4 | one for development only | Hush. |",
        "| `LEVEL` | `LOW` or `HIGH` | `LOW` | One \\| other. |",
        "| `COUNT` | whole number, ≥ 1, ≤ 9 | `3` | How many. |",
        "| `IS_ON` | true or false | `false` | On. |",
        "| `LINK` | text | empty | Where. |",
        "| `TENANT` | UUID | `00000000-0000-0000-0000-000000000001` | Whose. |",
    ]


def test_the_matrix_has_a_line_a_row():
    lines = [line for line in docs.matrix().splitlines() if line.startswith("|")][2:]

    assert len(lines) == len(MATRIX)
    assert (
        "| expire | Pending → Expired | timeout worker | pending_expires_at < AsOf | release rule | → Cancelled "
        "| → Skipped | appointment-cancelled, event-status-changed |"
    ) in lines
