"""Time zones by their IANA names."""

import functools
import importlib.resources

from core.errors import InvalidField


@functools.cache
def _in_use() -> frozenset[str]:
    """The names of today: those of zone.tab, and UTC."""
    lines = importlib.resources.files("tzdata").joinpath("zoneinfo/zone.tab").read_text().splitlines()
    return frozenset(line.split("\t")[2] for line in lines if line and not line.startswith("#")) | {"UTC"}


@functools.cache
def _links() -> dict[str, str]:
    """Other names and the zones that they stand for."""
    lines = importlib.resources.files("tzdata").joinpath("zoneinfo/tzdata.zi").read_text().splitlines()
    return {name: target for kind, target, name in (line.split() for line in lines if line.startswith("L "))}


@functools.cache
def _known() -> frozenset[str]:
    """Of the package, not of the machine: on some a zone is called localtime."""
    return frozenset(importlib.resources.files("tzdata").joinpath("zones").read_text().split())


def is_known(name: str) -> bool:
    """Whether `canonical` takes the name."""
    return name in _in_use() or name in _known()


def canonical(name: str) -> str:
    """The name under which a zone is stored: a legacy name (Asia/Calcutta) becomes today's (Asia/Kolkata).

    Raises ValueError with a sentence for a name that IANA does not know.
    """
    if name in _in_use():
        return name
    if not is_known(name):
        raise ValueError(f"{name[:64]!r} is not an IANA time zone, such as Europe/Moscow")
    target = _links().get(name, name)
    return "UTC" if target == "Etc/UTC" else target


def checked(name: str) -> str:
    """As `canonical`, of a field `time_zone`: raises InvalidField for a name that IANA does not know."""
    try:
        return canonical(name)
    except ValueError as error:
        raise InvalidField("time_zone", str(error)) from None
