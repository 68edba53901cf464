"""The runbooks of the checkout as pages, so that help is where the trouble is seen."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_NEIGHBOUR = re.compile(r"([\w-]+)\.md(#.*)?$")


@dataclass(frozen=True, slots=True)
class Runbook:
    name: str
    title: str
    body: SafeString


def _directory() -> Path:
    return Path(settings.BASE_DIR) / "docs" / "runbooks"


def names() -> list[str]:
    """Every runbook there is."""
    return sorted(path.stem for path in _directory().glob("*.md"))


def read(name: str) -> Runbook | None:
    """The runbook, its sections with anchors as the web pages of repositories have them; None for no such name."""
    if name not in names():
        return None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((_directory() / f"{name}.md").read_text(encoding="utf-8"))
    title = name
    for heading, text in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", anchor(text.content))
            title = text.content if heading.tag == "h1" else title
        for part in text.children or ():
            if part.type == "link_open" and (there := _NEIGHBOUR.match(str(part.attrGet("href")))):
                part.attrSet("href", f"../{there[1]}/{there[2] or ''}")
    # Our own files, rendered with HTML in them escaped.
    body = mark_safe(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S308
    return Runbook(name, title, body)


def anchor(heading: str) -> str:
    """The heading in small letters, without punctuation, hyphens for blanks."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
