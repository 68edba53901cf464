"""Who calls the API in tests, by tokens of the development key, and how the answers look."""

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.test import Client
from django.test.client import ClientHandler

from api import tokens
from core.clock import now as real_now
from core.ids import new_id
from tests.factories import OTHER_TENANT, TENANT

PERMISSIONS = (
    "calendar.slots.manage",
    "calendar.appointments.decide",
    "calendar.events.manage",
    "calendar.reassign",
)
# Shared, since each handler reads the middleware anew, and whitenoise with it every static file.
_HANDLER = ClientHandler(enforce_csrf_checks=False)
AN_HOUR = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        assert self.body["status"] == self.status
        return str(self.body["code"])

    @property
    def pointers(self) -> list[str]:
        """What a problem says is at fault."""
        return [next(value for name, value in fault.items() if name != "detail") for fault in self.body["errors"]]


@dataclass(frozen=True)
class Caller:
    """A person with a token; `token` replaces it by another text, "" by none."""

    user_id: UUID = field(default_factory=new_id)
    tenant_id: UUID | None = TENANT
    roles: Sequence[str] = ()
    permissions: Sequence[str] = PERMISSIONS
    token: str | None = None

    def bearer(self) -> str:
        if self.token is not None:
            return self.token
        return tokens.issue(
            user_id=self.user_id,
            tenant_id=self.tenant_id,
            roles=self.roles,
            permissions=self.permissions,
            as_of=real_now(),
            lifetime=AN_HOUR,
        )

    def but(self, **other: Any) -> "Caller":
        return replace(self, **other)

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, headers=headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("PATCH", path, body, headers=headers)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request; header names are spelled with underscores."""
        sent = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if bearer := self.bearer():
            sent["Authorization"] = f"Bearer {bearer}"
        data = raw if raw is not None else (b"" if body is None else json.dumps(body).encode())
        http = Client()
        http.handler = _HANDLER
        response = http.generic(
            method, f"/api/v1/{path}", data, content_type=content_type, headers=sent, query_params=query or {}
        )
        is_json = response.headers.get("Content-Type", "").partition(";")[0].endswith("json")
        content = json.loads(response.content) if is_json and response.content else response.content.decode()
        return Answer(response.status_code, content, dict(response.headers))


def owner(record: Any, **other: Any) -> Caller:
    """The owner of a slot, event or appointment."""
    return Caller(user_id=record.owner_user_id, tenant_id=record.tenant_id, **other)


def client(appointment: Any) -> Caller:
    """The investor of an appointment: of no tenant, without permissions."""
    return Caller(user_id=appointment.client_user_id, tenant_id=None, permissions=())


def an_investor() -> Caller:
    return Caller(tenant_id=None, permissions=())


def an_admin(tenant_id: UUID = TENANT) -> Caller:
    return Caller(tenant_id=tenant_id, roles=["tenant_admin"])


def a_foreign_admin() -> Caller:
    return an_admin(OTHER_TENANT)


NOBODY = Caller(token="")
