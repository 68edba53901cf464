"""A rule's "no" and a broken state are different things; only edges (views, cycles, consumers, commands) catch them."""

from typing import ClassVar


class Refused(Exception):
    """A rule said no. `code` is a stable word for callers; the sentence names the present state, no personal data."""

    code: ClassVar[str] = "refused"

    def __init__(self, sentence: str, **facts: object) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.facts = facts


class NotFound(Refused):
    """There is no such record for this actor."""

    code = "not_found"


class VersionConflict(Refused):
    """The caller saw another version than the one stored."""

    code = "version_conflict"


class InvalidField(Refused):
    """A value breaks a rule of its field; `field` is the field's name in the model (snake_case)."""

    code = "invalid_field"

    def __init__(self, field: str, sentence: str, **facts: object) -> None:
        super().__init__(sentence, **facts)
        self.field = field


def refuse_stale(record: str, *, version: int, seen: int | None) -> None:
    """Raises VersionConflict when the caller saw another version of the record than `version`, if they say which."""
    if seen is not None and seen != version:
        raise VersionConflict(f"{record} has version {version}, not {seen}")


class Inconsistent(Exception):
    """The stored state is one that the rules forbid: a defect or a hand-made change. Nothing of the item is written."""


class SettingsError(Exception):
    """Environment variables are missing, malformed or unknown: one sentence a line, each naming its variable."""
