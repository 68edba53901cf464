"""Reading JSON bodies: bounded, strict, and never an accident of Python's parser."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework import exceptions
from rest_framework.parsers import BaseParser

from api.problems import BadRequestValues, BodyTooLarge, Fault

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
            return json.loads(body.decode(), parse_int=_integer, object_pairs_hook=_members)
        except (ValueError, RecursionError):
            raise exceptions.ParseError("the body is not JSON in UTF-8") from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else math.inf


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise BadRequestValues(Fault(f"/{name}", "is given twice") for name in twice)
    return members
