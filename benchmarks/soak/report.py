"""What a part of the soak has to say: tables on the screen, and in docs/reliability.md between the part's markers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.document import conditions

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "reliability.md"

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Tables, each with its head as the first row; `holds` says that no promise is broken."""

    part: str
    command: str
    tables: Sequence[Rows]
    holds: bool
    remark: str = ""

    def markdown(self) -> str:
        verdict = "Every promise holds." if self.holds else "**A promise is broken.**"
        paragraphs = [f"`{self.command}`: {verdict}", *map(_table, self.tables)]
        return "\n\n".join([*paragraphs, *filter(None, [self.remark])])

    def write(self) -> None:
        """Put the report between its markers in the document, in place of the former one."""
        text = DOCUMENT.read_text()
        opening, closing = f"<!-- {self.part} -->", f"<!-- /{self.part} -->"
        section = f"{opening}\n{self.markdown()}\n\n_{conditions()}_\n{closing}"
        written, count = re.subn(f"{opening}.*{closing}", lambda _: section, text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{DOCUMENT.name} has {count} places for {self.part}")
        DOCUMENT.write_text(written)


def _table(rows: Rows) -> str:
    head, *body = rows
    return "\n".join(_line(cells) for cells in (head, ["---"] * len(head), *body))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
