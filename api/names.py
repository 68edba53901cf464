"""Names on the wire are camelCase, names in code snake_case."""

import re

from core.logs import camel

_SNAKE_WORD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def wire_name(name: str) -> str:
    """`start_at` → `startAt`."""
    return camel(name)


def wire_sentence(sentence: str) -> str:
    """A rule's sentence with the names of fields as callers know them."""
    return _SNAKE_WORD.sub(lambda word: camel(word.group()), sentence)
