"""Columns of lists, one line each: `columns.instant("slot.start_at", "starts")`.

A path with dots follows relations that the list has selected. Instants are told from `record.seen_at`, the moment at
which RecordAdmin has read the list.
"""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from django.contrib import admin

from backoffice import show

Column = Callable[[Any], Any]


def made(path: str, label: str, render: Callable[[Any, Any], Any]) -> Column:
    """A column that renders (record, value at the path); nothing where there is no value."""
    read = attrgetter(path)

    @admin.display(description=label, empty_value=show.NOTHING)
    def column(record: Any) -> Any:
        value = read(record)
        return None if value in (None, "") else render(record, value)

    column.__name__ = re.sub(r"\W+", "_", label)
    return column


def badge(path: str, label: str) -> Column:
    return made(path, label, lambda _record, value: show.badge(value))


def short_id(path: str, label: str) -> Column:
    return made(path, label, lambda _record, value: show.short(value))


def link(path: str, label: str, *, to: str) -> Column:
    """The id at the path as a link to the page of that record, `to` being `app_label.name`."""
    return made(path, label, lambda _record, value: show.link(to, value))


def instant(path: str, label: str) -> Column:
    return made(path, label, lambda record, value: show.moment(value, as_of=record.seen_at))


def text(path: str, label: str) -> Column:
    return made(path, label, lambda _record, value: value)
