"""Cursor pages: the next page begins behind the last item by (instant, id), at the same cost however deep."""

import base64
import binascii
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from rest_framework import serializers

from api.bodies import Body
from api.fields import Text, Whole
from api.problems import BadRequestValues, Fault
from core import clock

MAX_SIZE = 200
DEFAULT_SIZE = 50

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an item in an order by instant and id."""

    instant: datetime.datetime
    id: UUID

    def as_cursor(self) -> str:
        text = json.dumps([clock.iso(self.instant), str(self.id)])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def from_cursor(cls, cursor: str) -> Self:
        """Raises BadRequestValues for what `as_cursor` did not make."""
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            instant, id_ = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            return cls(clock.parse_instant(instant), UUID(id_))
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
            fault = Fault("cursor", "must be the nextCursor of a page", "parameter")
            raise BadRequestValues([fault]) from None


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    items: Sequence[Item]
    next_cursor: str | None


class PageQuery(Body):
    """The parameters of every list."""

    cursor = Text(required=False, max_length=200, help_text="The nextCursor of the page before.")
    limit = Whole(min_value=1, max_value=MAX_SIZE, default=DEFAULT_SIZE, help_text=f"Items a page, {MAX_SIZE} at most.")

    def validate_cursor(self, value: str) -> Place:
        return Place.from_cursor(value)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        values = super().to_internal_value(data)
        return {("after" if name == "cursor" else name): value for name, value in values.items()}


def page(found: Sequence[Item], *, limit: int, place: Callable[[Item], Place]) -> Page[Item]:
    """The first `limit` of the items found; a list asks for one more, to know whether there is a next page."""
    items = found[:limit]
    return Page(items, place(items[-1]).as_cursor() if len(found) > limit else None)


def page_of(item: type[Body]) -> type[Body]:
    """The serializer of a page of these."""
    members = {
        "__module__": item.__module__,
        "__doc__": f"A page of {item.__name__}.",
        "items": item(many=True),
        "next_cursor": serializers.CharField(allow_null=True, help_text="null on the last page."),
    }
    return type(f"{item.__name__}Page", (Body,), members)
