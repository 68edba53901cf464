"""Every error as `application/problem+json` (RFC 9457): type, title, status, detail, a stable `code`, faulty fields.

A stack trace never leaves the process; `instance` is the correlation id under which the log lines stand.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response

from api.names import wire_name, wire_sentence
from core import clock, logs
from core.correlation import correlation_id
from core.database import is_in_the_way, is_infrastructure_error
from core.errors import InvalidField, NotFound, Refused, VersionConflict

log = logs.get(__name__)

CONTENT_TYPE = "application/problem+json"
_RETRY = {"Retry-After": "1"}

_CODES_OF_FRAMEWORK: Mapping[type[exceptions.APIException], str] = {
    exceptions.ParseError: "malformed",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.PermissionDenied: "forbidden",
    exceptions.NotAuthenticated: "unauthenticated",
    exceptions.AuthenticationFailed: "unauthenticated",
    exceptions.NotFound: "not_found",
    exceptions.Throttled: "too_many_requests",
}
_KIT_STATUSES: Mapping[type[Refused], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    VersionConflict: HTTPStatus.PRECONDITION_FAILED,
    InvalidField: HTTPStatus.UNPROCESSABLE_ENTITY,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value: `where` is a JSON pointer into the body, a query parameter or a header."""

    where: str
    detail: str
    kind: str = "pointer"

    def as_json(self) -> dict[str, str]:
        return {self.kind: self.where, "detail": self.detail}


def pointer_to(*names: str) -> str:
    """The JSON pointer (RFC 6901); of a name that no text can hold, what can be shown."""
    escaped = (name.replace("~", "~0").replace("/", "~1").encode(errors="replace").decode() for name in names)
    return "".join(f"/{name}" for name in escaped)


class BadRequestValues(Exception):
    """Values of the request break the rules of their fields; each fault names its own."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        super().__init__("the request has invalid values")
        self.faults = tuple(faults)


class LengthRequired(exceptions.APIException):
    """The server takes a body for absent whose length nobody told."""

    status_code = HTTPStatus.LENGTH_REQUIRED
    default_detail = "a body needs its Content-Length; it can't be sent in chunks"
    default_code = "length_required"


class BodyTooLarge(exceptions.APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_detail = "the body is larger than this API reads"
    default_code = "body_too_large"


class Unavailable(exceptions.APIException):
    """Something that we depend on does not answer; trying again will help."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_detail = "a service that this API depends on does not answer"
    default_code = "unavailable"


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    code: str
    detail: str
    faults: Sequence[Fault] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The members of RFC 9457, ours, and the facts of the refusal under names that hide none of them."""
        members: dict[str, Any] = {_fact_name(name): _fact(value) for name, value in self.facts.items()}
        members |= {
            "type": f"urn:pin:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": int(self.status),
            "detail": self.detail,
            "code": self.code,
            "instance": f"urn:uuid:{correlation_id()}",
        }
        if self.faults:
            members["errors"] = [fault.as_json() for fault in self.faults]
        return members


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's EXCEPTION_HANDLER: the answer to anything that a view raises."""
    statuses: Mapping[type[Refused], HTTPStatus] = getattr(context.get("view"), "statuses", {})
    problem = _problem_of(error, statuses)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request failed", code=problem.code, exc_info=error)
    return Response(problem.as_json(), problem.status, content_type=CONTENT_TYPE, headers=dict(problem.headers))


@csrf_exempt
def no_such_route(_request: HttpRequest, **_kwargs: str) -> HttpResponse:
    """The view of every path below the API that is no route."""
    problem = Problem(HTTPStatus.NOT_FOUND, "not_found", "there is no such route")
    response = JsonResponse(problem.as_json(), status=problem.status, content_type=CONTENT_TYPE)
    keep_from_djangos_log(response)
    return response


def keep_from_djangos_log(response: HttpResponseBase) -> None:
    """Django would log every 4xx and 5xx with its path, in which a secret may stand; ours has a line without one."""
    response._has_been_logged = True  # type: ignore[attr-defined]


def status_of(refusal: type[Refused], statuses: Mapping[type[Refused], HTTPStatus]) -> HTTPStatus:
    """409 unless the view's `statuses`, or the kit's, say otherwise for it or what it derives from."""
    kinds = [kind for kind in refusal.__mro__ if issubclass(kind, Refused)]
    return next(
        (known[kind] for kind in kinds for known in (statuses, _KIT_STATUSES) if kind in known), HTTPStatus.CONFLICT
    )


def _problem_of(error: Exception, statuses: Mapping[type[Refused], HTTPStatus]) -> Problem:  # noqa: PLR0911 (a table)
    match error:
        case BadRequestValues():
            sentence = "; ".join(f"{fault.where}: {fault.detail}" for fault in error.faults)
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", sentence, error.faults)
        case Refused():
            return _refusal(error, statuses)
        case SuspiciousOperation():
            return Problem(HTTPStatus.BAD_REQUEST, "malformed", "the request is not one that this API reads")
        case Http404():
            return Problem(HTTPStatus.NOT_FOUND, "not_found", "there is no such record")
        case PermissionDenied():
            return Problem(HTTPStatus.FORBIDDEN, "forbidden", "this token does not permit that")
        case exceptions.APIException():
            return _framework_problem(error)
        case DatabaseError() if is_in_the_way(error):
            return _busy("another change of the same records is under way")
        case DatabaseError() if is_infrastructure_error(error):
            return Problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "the database does not answer", headers=_RETRY
            )
        case _:
            return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "the request failed and was logged")


def _refusal(refused: Refused, statuses: Mapping[type[Refused], HTTPStatus]) -> Problem:
    if refused.code == "busy":
        return _busy(wire_sentence(refused.sentence))
    facts = dict(refused.facts)
    at_fault = getattr(refused, "field", None) or facts.pop("field", None)
    faults = []
    if at_fault:
        pointer = pointer_to(*map(wire_name, str(at_fault).split("/")))
        faults.append(Fault(pointer, wire_sentence(refused.sentence)))
    return Problem(status_of(type(refused), statuses), refused.code, wire_sentence(refused.sentence), faults, facts)


def _busy(detail: str) -> Problem:
    return Problem(HTTPStatus.CONFLICT, "busy", detail, headers=_RETRY)


def _framework_problem(error: exceptions.APIException) -> Problem:
    headers = {}
    if (auth_header := getattr(error, "auth_header", None)) is not None:
        headers["WWW-Authenticate"] = auth_header
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = f"{max(1, round(wait))}"
    elif error.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        headers |= _RETRY
    code = next((word for kind, word in _CODES_OF_FRAMEWORK.items() if isinstance(error, kind)), error.default_code)
    return Problem(error.status_code, code, str(error.detail), headers=headers)


def _fact_name(name: str) -> str:
    return "currentStatus" if name == "status" else wire_name(name)


def _fact(value: Any) -> Any:
    match value:
        case datetime.datetime():
            return clock.iso(value)
        case UUID():
            return str(value)
        case Mapping():
            return {wire_name(str(name)): _fact(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_fact(inner) for inner in value]
        case _:
            return value
