"""The base of every view, and `operation`, which says all of one method in one place and documents it thereby."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Literal, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from api.authentication import Principal
from api.bodies import Body
from api.idempotency import HEADER, KeyReused
from api.problems import CONTENT_TYPE, keep_from_djangos_log, status_of
from api.schema import ProblemBody
from api.throttling import ByAddress, ByUser
from api.waiting import waiting_at_most
from core import logs
from core.correlation import correlated
from core.errors import Refused, VersionConflict
from core.tracing import span

log = logs.get(__name__)

ANYONE = "anyone"
ANY_TOKEN = "any token"  # noqa: S105 (a word of ours, not a secret)
_METHODS = frozenset({"get", "post", "put", "patch", "delete"})

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class File:
    """An answer that is a file instead of JSON, and 304 to whom has it already; see `preconditions.file_answer`."""

    media_type: str


def operation(
    summary: str,
    *,
    needs: str,
    answers: type[Body] | File,
    status: HTTPStatus = HTTPStatus.OK,
    body: type[Body] | None = None,
    query: type[Body] | None = None,
    refuses: Sequence[type[Refused]] = (),
    changes_a_record: bool = False,
    is_idempotent: bool = False,
    has_etag: bool = True,
) -> Callable[[View], View]:
    """Declare a method of an Endpoint: the permission that it needs (or ANYONE, ANY_TOKEN), its in- and outputs.

    `refuses` are the rules' refusals that it may answer with; those of the kit are added.
    """

    def declare(method: View) -> View:
        method.needs = needs  # type: ignore[attr-defined]
        method.declared = {  # type: ignore[attr-defined]
            "summary": summary,
            "body": body,
            "has_query": query is not None,
            "parameters": _parameters(
                query,
                answers,
                status,
                changes_a_record=changes_a_record,
                is_idempotent=is_idempotent,
                has_etag=has_etag,
            ),
            "answers": answers,
            "status": status,
            "refuses": (
                *refuses,
                *([VersionConflict] if changes_a_record else []),
                *([KeyReused] if is_idempotent else []),
            ),
        }
        return method

    return declare


def _parameters(
    query: type[Body] | None,
    answers: type[Body] | File,
    status: HTTPStatus,
    *,
    changes_a_record: bool,
    is_idempotent: bool,
    has_etag: bool,
) -> list[Any]:
    parameters: list[Any] = [query] if query else []
    header: Literal["header"] = "header"
    if changes_a_record:
        text = 'The version that was seen, such as "3"; a stale one answers 412.'
        schema = {"type": "string", "pattern": r'^(\*|"\d{1,9}")$'}
        parameters.append(OpenApiParameter("If-Match", schema, header, description=text))
    if is_idempotent:
        text = "Any text of the caller's; a repeated request with it gets the first answer. Good for 24 hours."
        schema = {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}
        parameters.append(OpenApiParameter(HEADER, schema, header, description=text))
    if isinstance(answers, File):
        text = "The ETag of the file that one has; 304 when it is still the same."
        parameters.append(OpenApiParameter("If-None-Match", str, header, description=text))
    if has_etag:
        text = "The hash of the file." if isinstance(answers, File) else "The version."
        parameters.append(OpenApiParameter("ETag", str, header, description=text, response=[status.value]))
    return parameters


def principal_of(request: Request) -> Principal:
    """Who asks; call it where the operation needs a token."""
    return cast(Principal, request.user)


def tenant_of(request: Request) -> UUID:
    """The tenant that the token names; an owner's and an admin's comes from nowhere else. Raises PermissionDenied."""
    tenant_id = principal_of(request).tenant_id
    if tenant_id is None:
        raise exceptions.PermissionDenied("this token names no tenant")
    return tenant_id


class _Permitted(BasePermission):
    """The method's `needs`, asked of the token."""

    message = "this token lacks the permission for that"

    def has_permission(self, request: Request, view: APIView) -> bool:
        needs: str | None = getattr(getattr(view, (request.method or "").lower(), None), "needs", None)
        if needs in (None, ANYONE):
            return True  # a method that does not exist answers 405
        if not isinstance(request.user, Principal):
            return False
        return needs == ANY_TOKEN or needs in request.user.permissions


class Endpoint(APIView):
    """One path. Its requests run under a correlation id and a span, wait for rows a bounded time, and leave a log line.

    Every method is declared by `operation`; `statuses` maps the refusals that do not answer 409.
    """

    http_method_names = sorted({*_METHODS, "head"})
    permission_classes = [_Permitted]
    throttle_classes = [ByUser]
    statuses: ClassVar[Mapping[type[Refused], HTTPStatus]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.statuses = {KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY, **cls.statuses}
        for name in _METHODS & cls.__dict__.keys():
            method = cls.__dict__[name]
            declared = getattr(method, "declared", None)
            if declared is None:
                raise TypeError(f"{cls.__name__}.{name} is not declared by @operation")
            setattr(cls, name, _documented(method, f"{name}{cls.__name__}", cls.statuses, **declared))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        began = time.monotonic()
        route = request.resolver_match.route if request.resolver_match else ""
        with (
            correlated() as correlation_id,
            span(f"{request.method} {route}"),
            waiting_at_most(settings.ENV.api_lock_timeout_ms),
        ):
            response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
            keep_from_djangos_log(response)
            response.headers["X-Correlation-Id"] = str(correlation_id)
            response.headers.setdefault("Cache-Control", "no-store")
            log.info(
                "request answered",
                method=request.method,
                route=route,
                status=response.status_code,
                duration_ms=round((time.monotonic() - began) * 1_000),
            )
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """By address it is counted before the token is looked at: requests with bad ones are requests too."""
        by_address = ByAddress()
        if not by_address.allow_request(request, self):
            self.throttled(request, by_address.wait())
        super().initial(request, *args, **kwargs)

    def get_authenticators(self) -> list[BaseAuthentication]:
        """None for an operation that is anyone's: a token that is not good does not shut it."""
        method = getattr(self, (self.request.method or "").lower(), None) if self.request else None
        return [] if getattr(method, "needs", None) == ANYONE else super().get_authenticators()

    def permission_denied(self, request: Request, message: str | None = None, code: str | None = None) -> Any:
        """401 without a token, 403 with one that does not suffice."""
        if not isinstance(request.user, Principal):
            raise exceptions.NotAuthenticated("a bearer token is needed")
        raise exceptions.PermissionDenied(message)


def _documented(
    method: View,
    operation_id: str,
    statuses: Mapping[type[Refused], HTTPStatus],
    *,
    summary: str,
    body: type[Body] | None,
    has_query: bool,
    parameters: list[Any],
    answers: type[Body] | File,
    status: HTTPStatus,
    refuses: Sequence[type[Refused]],
) -> View:
    needs: str = method.needs  # type: ignore[attr-defined]
    codes: dict[HTTPStatus, list[str]] = {
        HTTPStatus.TOO_MANY_REQUESTS: ["too_many_requests"],
        HTTPStatus.SERVICE_UNAVAILABLE: ["unavailable"],
        HTTPStatus.CONFLICT: ["busy"],
        HTTPStatus.UNPROCESSABLE_ENTITY: ["invalid_request"],
    }
    if needs != ANYONE:
        codes[HTTPStatus.UNAUTHORIZED] = ["unauthenticated"]
    if needs not in (ANYONE, ANY_TOKEN):
        codes[HTTPStatus.FORBIDDEN] = ["forbidden"]
    if body is not None or has_query:
        codes[HTTPStatus.BAD_REQUEST] = ["malformed"]
    if body is not None:
        codes[HTTPStatus.LENGTH_REQUIRED] = ["length_required"]
        codes[HTTPStatus.REQUEST_ENTITY_TOO_LARGE] = ["body_too_large"]
        codes[HTTPStatus.UNSUPPORTED_MEDIA_TYPE] = ["unsupported_media_type"]
    for refusal in refuses:
        codes.setdefault(status_of(refusal, statuses), []).append(refusal.code)
    responses: dict[Any, Any] = {}
    if isinstance(answers, File):
        responses[status.value, answers.media_type] = OpenApiResponse(str, description=status.phrase)
        responses[HTTPStatus.NOT_MODIFIED.value] = OpenApiResponse(description=HTTPStatus.NOT_MODIFIED.phrase)
    else:
        responses[status.value] = OpenApiResponse(answers, description=status.phrase)
    responses |= {
        (code.value, CONTENT_TYPE): OpenApiResponse(ProblemBody, description=f"code: {', '.join(sorted(set(words)))}")
        for code, words in sorted(codes.items())
    }
    permission = {ANYONE: "Anyone, without a token.", ANY_TOKEN: "Any valid token."}
    wanted = permission.get(needs, f"Needs the permission `{needs}`.")
    promise = inspect.getdoc(method)
    description = f"{promise}\n\n{wanted}" if promise else wanted
    decorate = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        request={"application/json": body} if body else None,
        parameters=parameters,
        responses=responses,
        auth=[] if needs == ANYONE else None,
    )
    documented: View = decorate(method)
    return documented
