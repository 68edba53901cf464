"""ETag and If-Match: a change of a record that somebody has changed since is refused."""

import re
from http import HTTPStatus
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import BadRequestValues, Fault
from core.errors import VersionConflict

_OURS = re.compile(r'"(\d{1,9})"', re.ASCII)


def etag(version: int) -> str:
    return f'"{version}"'


def answer(body: Any, *, version: int, status: int = HTTPStatus.OK) -> Response:
    """The record with its version as ETag."""
    return Response(body, status, headers={"ETag": etag(version)})


def seen_version(request: Request) -> int | None:
    """The version in If-Match; None without one or for `*`.

    Raises VersionConflict for a tag that is not one of ours (a weak one never matches either), BadRequestValues for
    several tags.
    """
    value = request.headers.get("If-Match", "").strip()
    if not value or value == "*":
        return None
    if "," in value:
        raise BadRequestValues([Fault("If-Match", "must be one entity tag", "header")])
    if (tag := _OURS.fullmatch(value)) is None:
        raise VersionConflict("If-Match names no version of this record")
    return int(tag.group(1))
