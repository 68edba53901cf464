"""What an edit changes, told from what it merely says again."""

from collections.abc import Mapping
from typing import Any


def changes(present: object, wanted: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `wanted`, a checked draft, that differ from `present`, of those that were given.

    A zone that IANA has renamed since must not look like a change of the owner's: what was not given stays as it is,
    and so does what was given as it stands.
    """
    return {
        name: getattr(wanted, name)
        for name, value in given.items()
        if getattr(present, name) not in (value, getattr(wanted, name))
    }
