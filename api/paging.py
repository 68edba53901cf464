"""Cursor pages: the next page begins behind the last item by (instant, id), at the same cost however deep."""

import base64
import binascii
import datetime
import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

from django.db.models import BooleanField, DateTimeField, F, Func, Q, UUIDField, Value
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

    after = Text(required=False, max_length=200, help_text="The nextCursor of the page before.")
    limit = Whole(min_value=1, max_value=MAX_SIZE, default=DEFAULT_SIZE, help_text=f"Items a page, {MAX_SIZE} at most.")

    WIRE_NAMES: ClassVar[Mapping[str, str]] = {"after": "cursor"}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The place in the cursor's stead."""
        return attrs | {"after": Place.from_cursor(attrs["after"])} if "after" in attrs else attrs


def page(found: Sequence[Item], *, limit: int, place: Callable[[Item], Place]) -> Page[Item]:
    """The first `limit` of the items found; a list asks for one more, to know whether there is a next page."""
    items = found[:limit]
    return Page(items, place(items[-1]).as_cursor() if len(found) > limit else None)


def merged_page(lists: Sequence[Sequence[Item]], *, limit: int, place: Callable[[Item], Place]) -> Page[Item]:
    """A page out of several lists in that order; an item that is in two of them comes once."""

    def key(item: Item) -> tuple[datetime.datetime, UUID]:
        at = place(item)
        return at.instant, at.id

    merged = {key(item): item for item in heapq.merge(*lists, key=key)}
    return page(list(merged.values()), limit=limit, place=place)


def behind(place: Place, *, instant: str, id_: str = "id") -> Q:
    """The condition `(instant, id) > (place)`; its first half is for an index that knows only the instant."""
    columns = Func(F(instant), F(id_), template="(%(expressions)s)", output_field=BooleanField())
    values = Func(
        Value(place.instant, DateTimeField()),
        Value(place.id, UUIDField()),
        template="(%(expressions)s)",
        output_field=BooleanField(),
    )
    later = Func(columns, values, template="%(expressions)s", arg_joiner=" > ", output_field=BooleanField())
    return Q(**{f"{instant}__gte": place.instant}) & Q(later)


def page_of(item: type[Body]) -> type[Body]:
    """The serializer of a page of these."""
    members = {
        "__module__": item.__module__,
        "__doc__": f"A page of {item.__name__}.",
        "items": item(many=True),
        "next_cursor": serializers.CharField(allow_null=True, help_text="null on the last page."),
    }
    return type(f"{item.__name__}Page", (Body,), members)
