"""Who may do what: every route as a stranger, with the wrong permission, with tokens that are none."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from api.authentication import DEVELOPMENT_KEY_ID, DevelopmentKey
from core.clock import now as real_now
from core.ids import new_id
from tests.api.callers import AN_HOUR, NOBODY, PERMISSIONS, Caller, a_foreign_admin, an_admin
from tests.api.routes import DOCUMENTATION, ROUTES, Sample, all_routes
from tests.appointments import state
from tests.factories import OTHER_TENANT

pytestmark = pytest.mark.django_db
EVERY_ROUTE = pytest.mark.parametrize("route", ROUTES)


def with_(**conditions: Any) -> pytest.MarkDecorator:
    names = [name for name, route in ROUTES.items() if all(getattr(route, k) == v for k, v in conditions.items())]
    return pytest.mark.parametrize("route", names)


def call(route: str, sample: Sample, caller: Caller) -> Any:
    return caller.call(route.split(maxsplit=1)[0], sample.path, sample.body)


def test_every_route_of_the_router_is_tried_here() -> None:
    assert set(ROUTES) | DOCUMENTATION == all_routes()


@EVERY_ROUTE
def test_the_right_caller_succeeds(route: str, django_assert_num_queries: Any) -> None:
    sample = ROUTES[route].make()

    with django_assert_num_queries(ROUTES[route].queries):
        answer = call(route, sample, sample.caller)

    assert answer.status == ROUTES[route].status, answer.body
    assert answer.headers["X-Correlation-Id"]
    assert sample.record_id in json.dumps(answer.body)


@pytest.mark.parametrize("route", [name for name in ROUTES if name.startswith("GET ")])
def test_reading_changes_nothing(route: str) -> None:
    sample = ROUTES[route].make()
    before = state.everything()

    answers = [sample.caller.call(method, sample.path) for method in ("GET", "HEAD")]

    assert [answer.status for answer in answers] == [200, 200]
    assert state.everything() == before


@with_(is_public=False)
def test_without_a_token(route: str) -> None:
    answer = call(route, ROUTES[route].make(), NOBODY)

    assert (answer.status, answer.code) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def claims(caller: Caller, **other: Any) -> dict[str, Any]:
    return {
        "iss": settings.ENV.jwt_issuer,
        "aud": settings.ENV.jwt_audience,
        "sub": str(caller.user_id),
        "tenant_id": str(caller.tenant_id),
        "iat": real_now(),
        "exp": real_now() + AN_HOUR,
        "roles": list(caller.roles),
        "permissions": list(caller.permissions),
        **other,
    }


def signed(caller: Caller, **other: Any) -> str:
    return jwt.encode(
        claims(caller, **other), DevelopmentKey(settings.SECRET_KEY).private, "EdDSA", {"kid": DEVELOPMENT_KEY_ID}
    )


def unsigned(caller: Caller) -> str:
    return jwt.encode(claims(caller), "", "none", {"kid": DEVELOPMENT_KEY_ID})


def signed_with_the_public_key(caller: Caller) -> str:
    """HS256 with our public key as the secret, by hand, since PyJWT refuses to make it."""
    public = DevelopmentKey(settings.SECRET_KEY).private.public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    given = claims(caller, iat=int(real_now().timestamp()), exp=int((real_now() + AN_HOUR).timestamp()))
    header = {"alg": "HS256", "typ": "JWT", "kid": DEVELOPMENT_KEY_ID}
    head, payload = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, given))
    signature = hmac.digest(secret, head + b"." + payload, hashlib.sha256)
    return b".".join([head, payload, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def signed_by_another(caller: Caller) -> str:
    return jwt.encode(claims(caller), Ed25519PrivateKey.generate(), "EdDSA", {"kid": DEVELOPMENT_KEY_ID})


BAD_TOKENS: dict[str, Callable[[Caller], str]] = {
    "expired": lambda caller: signed(caller, exp=real_now() - AN_HOUR),
    "not yet issued": lambda caller: signed(caller, iat=real_now() + AN_HOUR),
    "foreign issuer": lambda caller: signed(caller, iss="https://elsewhere.example"),
    "wrong audience": lambda caller: signed(caller, aud="pin-crm"),
    "alg none": unsigned,
    "HS256 with the public key": signed_with_the_public_key,
    "another's signature": signed_by_another,
    "unknown key id": lambda caller: jwt.encode(claims(caller), Ed25519PrivateKey.generate(), "EdDSA", {"kid": "x"}),
    "no key id": lambda caller: jwt.encode(claims(caller), Ed25519PrivateKey.generate(), "EdDSA"),
    "no expiry": lambda caller: signed(caller, exp=None),
    "a subject that is no UUID": lambda caller: signed(caller, sub="42"),
    "a tenant that is no UUID": lambda caller: signed(caller, tenant_id=7),
    "permissions as a text": lambda caller: signed(caller, permissions=" ".join(PERMISSIONS)),
    "no token at all": lambda _caller: "what is this",
}


@with_(is_public=False)
def test_a_token_that_is_none(route: str) -> None:
    sample = ROUTES[route].make()

    answers = {
        kind: call(route, sample, sample.caller.but(token=make(sample.caller))) for kind, make in BAD_TOKENS.items()
    }

    assert {kind: (answer.status, answer.code) for kind, answer in answers.items()} == dict.fromkeys(
        BAD_TOKENS, (401, "unauthenticated")
    )


@with_(is_public=True)
def test_what_is_anyones_does_not_mind_a_bad_token(route: str) -> None:
    sample = ROUTES[route].make()
    assert call(route, sample, Caller(token="bad")).status == ROUTES[route].status


@pytest.mark.parametrize("route", [name for name, route in ROUTES.items() if route.permission])
def test_the_right_person_without_the_permission(route: str) -> None:
    sample = ROUTES[route].make()
    others = [permission for permission in PERMISSIONS if permission != ROUTES[route].permission]

    answer = call(route, sample, sample.caller.but(permissions=others))

    assert (answer.status, answer.code) == (403, "forbidden")


STRANGERS: dict[str, Callable[[Caller], Caller]] = {
    "another user of the tenant": lambda caller: caller.but(user_id=new_id(), permissions=PERMISSIONS),
    "a user of another tenant": lambda caller: caller.but(
        user_id=new_id(), tenant_id=OTHER_TENANT, permissions=PERMISSIONS
    ),
    "an admin of another tenant": lambda _caller: a_foreign_admin(),
    "somebody of no tenant": lambda _caller: Caller(tenant_id=None),
}


@with_(of_a_record=True)
@pytest.mark.parametrize("who", STRANGERS)
def test_anothers_record_is_not_found(route: str, who: str) -> None:
    sample = ROUTES[route].make()

    answer = call(route, sample, STRANGERS[who](sample.caller))

    assert (answer.status, answer.code) == (404, "not_found")
    assert sample.caller.get(sample.path.split("/")[0] + "/" + sample.record_id).body.get("version", 1) == 1


@with_(lists=True)
@pytest.mark.parametrize("who", STRANGERS)
def test_anothers_record_is_in_no_list(route: str, who: str) -> None:
    sample = ROUTES[route].make()

    answer = call(route, sample, STRANGERS[who](sample.caller))

    assert (answer.status, answer.body["items"]) == (200, [])


@pytest.mark.parametrize("route", [name for name, route in ROUTES.items() if route.of_a_record or route.lists])
def test_a_tenant_admin_acts_for_the_owner(route: str) -> None:
    sample = ROUTES[route].make()

    answer = call(route, sample, an_admin())

    assert answer.status == ROUTES[route].status, answer.body
    assert sample.record_id in json.dumps(answer.body)


@pytest.mark.parametrize(
    "route", [name for name, route in ROUTES.items() if route.permission and route.permission != PERMISSIONS[1]]
)
def test_an_owner_whose_token_names_no_tenant_owns_nothing(route: str) -> None:
    sample = ROUTES[route].make()

    answer = call(route, sample, sample.caller.but(tenant_id=None, roles=()))

    assert answer.status in (403, 404) or answer.body["items"] == []


def test_only_a_tenant_admin_reassigns() -> None:
    sample = ROUTES["POST reassignments"].make()

    answer = call("POST", sample, sample.caller.but(roles=()))

    assert (answer.status, answer.code) == (403, "forbidden")


@pytest.mark.parametrize("route", ["POST slots", "POST slots/bulk", "POST events"])
def test_what_is_made_belongs_to_the_tokens_tenant_and_only_an_admin_names_another_owner(route: str) -> None:
    sample = ROUTES[route].make()
    other = new_id()
    body = {**sample.body, "ownerUserId": str(other)}

    assert sample.caller.post(sample.path, body).status == 404
    assert sample.caller.post(sample.path, {**sample.body, "tenantId": str(OTHER_TENANT)}).pointers == ["/tenantId"]
    made = an_admin().post(sample.path, body).body

    first = made["items"][0] if "items" in made else made
    assert (first["ownerUserId"], first["tenantId"]) == (str(other), str(sample.caller.tenant_id))
