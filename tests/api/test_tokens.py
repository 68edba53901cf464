"""Keys from a JWKS URL, and development's own tokens."""

import datetime
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.core.management import CommandError, call_command

from api import authentication
from core import clock
from core.clock import now as real_now
from core.ids import new_id
from tests.api.callers import AN_HOUR, Caller
from tests.factories import TENANT, EventFactory, SlotFactory

pytestmark = pytest.mark.django_db


class IdentityProvider:
    """A JWKS URL on loopback, whose keys can be changed and which can fall silent."""

    def __init__(self) -> None:
        self.private: dict[str, Any] = {}
        self.answers = True
        self.asked = 0
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                self.send_response(200 if provider.answers else 500)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": provider.public()}).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def public(self) -> list[dict[str, Any]]:
        return [
            {**jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
            for kid, (algorithm, key) in self.private.items()
        ]

    def add(self, kid: str, algorithm: str, key: Any) -> None:
        self.private[kid] = algorithm, key

    def token(self, kid: str, **other: Any) -> str:
        algorithm, key = self.private[kid]
        claims = {
            "iss": "pin-identity",
            "aud": "pin-calendar",
            "sub": str(new_id()),
            "iat": real_now(),
            "exp": real_now() + AN_HOUR,
            **other,
        }
        return jwt.encode(claims, key, algorithm, {"kid": kid})


@pytest.fixture
def provider(settings: Any) -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    provider.add("first", "RS256", rsa.generate_private_key(65_537, 2_048))
    threading.Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    settings.ENV = settings.ENV.model_copy(update={"jwt_jwks_url": provider.url})
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


def status(token: str) -> Any:
    return Caller(token=token).get("appointments").status


@pytest.mark.parametrize(("algorithm", "key"), [("ES256", ec.generate_private_key(ec.SECP256R1())), ("RS256", None)])
def test_tokens_of_the_identity_provider_are_good(provider: IdentityProvider, algorithm: str, key: Any) -> None:
    if key is not None:
        provider.add("first", algorithm, key)

    assert [status(provider.token("first")) for _ in range(3)] == [200, 200, 200]
    assert provider.asked == 1


def test_the_development_key_is_not_good_beside_it(provider: IdentityProvider, settings: Any) -> None:
    development = authentication.DevelopmentKey(settings.SECRET_KEY)
    claims = jwt.decode(provider.token("first"), options={"verify_signature": False})

    token = jwt.encode(claims, development.private, "EdDSA", {"kid": authentication.DEVELOPMENT_KEY_ID})

    assert status(token) == 401


def test_a_key_under_another_algorithm_is_not_good(provider: IdentityProvider) -> None:
    good = provider.token("first")
    provider.add("second", "PS256", rsa.generate_private_key(65_537, 2_048))

    assert (status(good), status(provider.token("second"))) == (200, 401)


def test_a_key_that_is_new_at_the_provider_is_found(provider: IdentityProvider) -> None:
    keys = authentication.keys()
    assert isinstance(keys, authentication.JwksUrl)
    keys._client.cooldown_duration = 0
    assert status(provider.token("first")) == 200

    provider.add("second", "RS256", rsa.generate_private_key(65_537, 2_048))

    assert status(provider.token("second")) == 200


def test_while_the_provider_is_silent_keys_stay_good_and_it_is_left_alone(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = provider.token("first")
    assert status(token) == 200
    keys = authentication.keys()
    assert isinstance(keys, authentication.JwksUrl)
    keys._client.jwk_set_cache.lifespan = 0  # type: ignore[union-attr]
    provider.answers = False

    assert [status(token) for _ in range(3)] == [200, 200, 200]
    assert provider.asked == 2

    monkeypatch.setattr(authentication, "_STALE_SECONDS", -1)
    assert status(token) == 503


def test_a_provider_that_never_answered_is_a_503_and_comes_back(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.answers = False
    answer = Caller(token=provider.token("first")).get("appointments")
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "unavailable", "1")

    provider.answers = True
    keys = authentication.keys()
    assert isinstance(keys, authentication.JwksUrl)
    keys._retry_at = 0

    assert status(provider.token("first")) == 200


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not here: tokens live in the time of the machine."""
    monkeypatch.setattr(clock, "now", real_now)


def issued(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("issue_token", *arguments)
    return capsys.readouterr().out.strip()


def test_issue_token_makes_a_token_that_the_api_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    slot = SlotFactory.create()

    token = issued(
        capsys,
        *("--user", str(slot.owner_user_id), "--tenant", str(TENANT), "--permission", "calendar.slots.manage"),
    )

    assert Caller(token=token).get(f"slots/{slot.id}").status == 200
    assert Caller(token=token).post("events", {}).status == 403


def test_issue_token_makes_tenant_admins(capsys: pytest.CaptureFixture[str]) -> None:
    event = EventFactory.create()

    token = issued(
        capsys,
        *("--user", str(new_id()), "--tenant", str(TENANT), "--role", "tenant_admin"),
        *("--permission", "calendar.events.manage"),
    )

    assert Caller(token=token).get(f"events/{event.id}").status == 200


def test_an_issued_token_ends(capsys: pytest.CaptureFixture[str]) -> None:
    token = issued(capsys, "--user", str(new_id()), "--minutes", "5")

    claims = jwt.decode(token, options={"verify_signature": False})
    lifetime = datetime.timedelta(seconds=claims["exp"] - claims["iat"])

    assert lifetime == datetime.timedelta(minutes=5)


@pytest.mark.parametrize(
    "update", [{"pin_environment": "production"}, {"jwt_jwks_url": "https://identity.example/keys"}]
)
def test_issue_token_refuses_where_tokens_come_from_the_identity_provider(
    settings: Any, update: dict[str, str]
) -> None:
    settings.ENV = settings.ENV.model_copy(update=update)

    with pytest.raises(CommandError, match="identity provider"):
        call_command("issue_token", "--user", str(new_id()))
