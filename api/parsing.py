"""Reading JSON bodies: bounded, strict, and never an accident of Python's parser."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework import exceptions
from rest_framework.parsers import BaseParser

from api.problems import BadRequestValues, BodyTooLarge, Fault, pointer_to

_LONGEST_INTEGER = 18


class JsonParser(BaseParser):
    """DRF's parser of `application/json`.

    NaN, infinities and integers of absurd length arrive as floats that no field takes, so that its name is told.
    """

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """The body as Python values. Raises BodyTooLarge, ParseError, BadRequestValues for a name given twice."""
        limit = settings.ENV.api_max_body_bytes
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        try:
            value = json.loads(body.decode(), parse_int=_integer, object_pairs_hook=_Members)
            faults = tuple(_given_twice(value))
        except (ValueError, RecursionError):
            raise exceptions.ParseError("the body is not JSON in UTF-8") from None
        if faults:
            raise BadRequestValues(faults)
        return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else math.inf


class _Members(dict[str, Any]):
    """An object's, and the names that it gives more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs) if len(self) != len(pairs) else {}
        self.twice = sorted(name for name, count in counts.items() if count > 1)


def _given_twice(value: Any, pointer: str = "") -> Iterator[Fault]:
    if isinstance(value, _Members):
        yield from (Fault(pointer + pointer_to(name), "is given twice") for name in value.twice)
        for name, inner in value.items():
            yield from _given_twice(inner, pointer + pointer_to(name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _given_twice(inner, f"{pointer}/{position}")
