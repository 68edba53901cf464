"""The documents that are printed from the code, so that they can't disagree with it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

from django.conf import settings
from pydantic import BaseModel, PostgresDsn, SecretStr
from pydantic.fields import FieldInfo

from appointments.matrix import MATRIX, AutoConfirm, Row

_PRINTED = "Printed by `manage.py print_docs`; edit {source}, not this file."

_TYPES: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "secret text",
    UUID: "UUID",
    PostgresDsn: "URL",
}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥", "max_length": "length ≤"}


def pages() -> dict[str, str]:
    """The text of each document, by its path below the checkout."""
    return {"docs/configuration.md": configuration(type(settings.ENV)), "docs/matrix.md": matrix()}


def drifted(root: Path) -> list[str]:
    """The documents that are missing below `root` or not as the code has them."""
    return [path for path, text in pages().items() if not _is_current(root / path, text)]


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def configuration(environment: type[BaseModel]) -> str:
    """Every variable of the environment."""
    rows = (
        (f"`{name.upper()}`", _type(field), _default(field), field.description or "")
        for name, field in environment.model_fields.items()
    )
    return f"""# Configuration

{_PRINTED.format(source="`config/settings.py`")}

Environment variables only. One that is missing, malformed or unknown stops the start with a sentence that names it.
Two more are of the image: `WEB_CONCURRENCY`, the web's processes (2), and `PIN_HEALTH_PORT`, the port that its health
check asks (8000).

{_table(("variable", "type", "default", "meaning"), rows)}"""


def _type(field: FieldInfo) -> str:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    kinds = [part for part in get_args(kind) if part is not NoneType] if isinstance(kind, UnionType) else [kind]
    bounds = [
        f"{sign} {getattr(constraint, bound):.10g}"
        for constraint in field.metadata
        for bound, sign in _BOUNDS.items()
        if getattr(constraint, bound, None) is not None
    ]
    return ", ".join([" or ".join(_TYPES[part] for part in kinds), *bounds])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, SecretStr) and value.get_secret_value():
        return "one for development only"
    if isinstance(value, bool):
        return f"`{value}`".lower()
    return "empty" if value in (None, "", SecretStr("")) else f"`{value}`"


def matrix() -> str:
    """The table of an appointment's transitions."""
    header = ("verb", "from → to", "who", "when", "slot", "event", "event's Pending reminders", "messages")
    return f"""# Transitions of an appointment

{_PRINTED.format(source="`appointments/matrix.py`")}

What is not here is refused; the terminal states never change. Each row commits whole or not at all (INV-APT-6).

{_table(header, map(_cells, MATRIX))}"""


def _cells(row: Row) -> Sequence[str]:
    from_ = ", ".join(status.value for status in type(row.to) if status in row.from_) or "(none)"
    when = row.when.value
    if row.auto_confirm is not AutoConfirm.EITHER:
        when += f"; {row.auto_confirm.value}"
    messages = (message.TOPIC.removeprefix("pin.calendar.").removesuffix(".v1") for message in row.messages)
    return (
        row.verb.value,
        f"{from_} → {row.to.value}",
        " or ".join(sorted(party.value for party in row.by)),
        when,
        row.slot.value,
        row.event.value,
        row.reminders.value,
        ", ".join(messages),
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
