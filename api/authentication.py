"""Bearer tokens of the platform's identity provider: who asks, for which tenant, with which permissions.

The algorithms are fixed and asymmetric, so that a token can name neither `none` nor our public key as a secret.
"""

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.signals import setting_changed
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from api.problems import Unavailable
from core.actors import Actor

ALGORITHMS = ("EdDSA", "ES256", "RS256", "PS256")
TENANT_ADMIN_ROLE = "tenant_admin"
DEVELOPMENT_KEY_ID = "development"
_REQUIRED_CLAIMS = ("exp", "iat", "iss", "aud", "sub")
_CLOCK_SKEW_SECONDS = 10
_FETCH_TIMEOUT_SECONDS = 3
_FRESH_SECONDS = 300
_RETRY_SECONDS = 10
_STALE_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a checked token speaks for; `request.user` of an authenticated request."""

    actor: Actor
    user_id: UUID
    tenant_id: UUID | None
    permissions: frozenset[str]


class Keys(Protocol):
    """Where public keys come from."""

    def find(self, key_id: str) -> jwt.PyJWK:
        """The key of that id. Raises jwt.PyJWTError when there is none, Unavailable when it cannot be known."""


class JwksUrl:
    """The keys behind a JWKS URL, fetched anew every five minutes.

    While the URL does not answer, keys of the last hour stay good and the URL is asked only every ten seconds, so that
    neither a restart of the identity provider nor a flood of made-up key ids stops the API.
    """

    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, lifespan=_FRESH_SECONDS, timeout=_FETCH_TIMEOUT_SECONDS)
        self._known: dict[str, tuple[jwt.PyJWK, float]] = {}
        self._retry_at = 0.0

    def find(self, key_id: str) -> jwt.PyJWK:
        now = time.monotonic()
        if now >= self._retry_at:
            try:
                key = self._client.get_signing_key(key_id)
            except (jwt.PyJWKClientConnectionError, ValueError, OSError):
                self._retry_at = time.monotonic() + _RETRY_SECONDS
            else:
                self._known[key_id] = key, now
                return key
        known = self._known.get(key_id)
        if known is None or now - known[1] > _STALE_SECONDS:
            raise Unavailable("the identity provider does not answer")
        return known[0]


class DevelopmentKey:
    """One key made from SECRET_KEY, so that development needs no identity provider. Production has none."""

    def __init__(self, secret: str) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(
            hashlib.sha256(f"development jwt:{secret}".encode()).digest()
        )
        public = jwt.get_algorithm_by_name("EdDSA").to_jwk(self.private.public_key(), as_dict=True)
        self._public = jwt.PyJWK({**public, "kid": DEVELOPMENT_KEY_ID, "use": "sig", "alg": "EdDSA"})

    def find(self, key_id: str) -> jwt.PyJWK:
        if key_id != DEVELOPMENT_KEY_ID:
            raise jwt.InvalidKeyError("unknown key id")
        return self._public


_keys_lock = threading.Lock()
_keys: Keys | None = None


def keys() -> Keys:
    """Of this process: those of JWT_JWKS_URL, or the development key when none is set."""
    global _keys  # noqa: PLW0603 (made once a process, when settings are known)
    with _keys_lock:
        if _keys is None:
            url = settings.ENV.jwt_jwks_url
            _keys = JwksUrl(str(url)) if url else DevelopmentKey(settings.SECRET_KEY)
        return _keys


def _forget_keys(*, setting: str, **_kwargs: Any) -> None:
    global _keys  # noqa: PLW0603
    if setting == "ENV":
        _keys = None


setting_changed.connect(_forget_keys, dispatch_uid="api.authentication")


class BearerToken(BaseAuthentication):
    """DRF's authentication by `Authorization: Bearer <JWT>`."""

    def authenticate(self, request: Request) -> tuple[Principal, None] | None:
        """The principal; None without a token. Raises AuthenticationFailed for one that is not good."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer" or not token.strip():
            raise exceptions.AuthenticationFailed("the Authorization header must be: Bearer <token>")
        return principal_of(token.strip()), None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pin-calendar"'


def principal_of(token: str) -> Principal:
    """Whom the token speaks for. Raises AuthenticationFailed, which does not tell an attacker what was nearly right."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS or not isinstance(header.get("kid"), str):
            raise jwt.InvalidAlgorithmError("not one of ours")
        claims = jwt.decode(
            token,
            keys().find(header["kid"]),
            algorithms=ALGORITHMS,
            issuer=settings.ENV.jwt_issuer,
            audience=settings.ENV.jwt_audience,
            leeway=_CLOCK_SKEW_SECONDS,
            options={"require": list(_REQUIRED_CLAIMS)},
        )
        return _principal(claims)
    except jwt.ExpiredSignatureError:
        raise exceptions.AuthenticationFailed("the token has expired") from None
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        raise exceptions.AuthenticationFailed("the token is not valid") from None


def _principal(claims: dict[str, Any]) -> Principal:
    user_id = UUID(claims["sub"])
    tenant_id = UUID(claims["tenant_id"]) if claims.get("tenant_id") is not None else None
    roles, permissions = (_words(claims.get(name, [])) for name in ("roles", "permissions"))
    actor = Actor.user(user_id, tenant_id=tenant_id)
    if TENANT_ADMIN_ROLE in roles and tenant_id is not None:
        actor = Actor.tenant_admin(user_id, tenant_id=tenant_id)
    return Principal(actor, user_id, tenant_id, permissions)


def _words(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("roles and permissions are lists of words")
    return frozenset(value)
