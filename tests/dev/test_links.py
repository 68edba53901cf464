"""The documents lead to each other."""

import re
from pathlib import Path

import pytest

from ops.runbooks import anchor
from tests.dev.processes import ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_one_of_its_headings(document: Path) -> None:
    nowhere = []
    for path, heading in _LINK.findall(document.read_text()):
        there = document.parent / path if path else document
        is_there = there.exists() and (not heading or heading in map(anchor, _HEADING.findall(there.read_text())))
        if not is_there:
            nowhere.append(f"{path}#{heading}" if heading else path)

    assert nowhere == []
