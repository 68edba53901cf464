"""ETag, If-Match, If-None-Match: a change of a record that somebody has changed since is refused, a file sent once."""

import hashlib
import re
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.utils.http import parse_etags
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


def file_answer(request: Request, content: bytes, *, media_type: str) -> HttpResponse:
    """The UTF-8 text with its hash as ETag, for its reader's own cache; 304 when If-None-Match says that they have it.

    Not by Django's conditional responses: those log the path, in which a secret may stand.
    """
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    known = [known.removeprefix("W/") for known in parse_etags(request.headers.get("If-None-Match", ""))]
    if tag in known or known == ["*"]:
        response = HttpResponse(status=HTTPStatus.NOT_MODIFIED)
        del response.headers["Content-Type"]
    else:
        response = HttpResponse(content, content_type=f"{media_type}; charset=utf-8")
    response.headers["ETag"], response.headers["Cache-Control"] = tag, "private, no-cache"
    return response


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
