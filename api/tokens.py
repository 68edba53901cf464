"""Tokens of one's own for development, signed with the development key."""

import datetime
from collections.abc import Sequence
from uuid import UUID

import jwt
from django.conf import settings

from api.authentication import DEVELOPMENT_KEY_ID, DevelopmentKey, keys
from core.errors import Refused


class NoDevelopmentKey(Refused):
    """Tokens come from the identity provider here: JWT_JWKS_URL is set, or this is production."""

    code = "no_development_key"


def issue(
    *,
    user_id: UUID,
    as_of: datetime.datetime,
    lifetime: datetime.timedelta,
    tenant_id: UUID | None = None,
    roles: Sequence[str] = (),
    permissions: Sequence[str] = (),
) -> str:
    """A token that this API accepts from `as_of` on. Raises NoDevelopmentKey."""
    source = keys()
    if settings.ENV.pin_environment == "production" or not isinstance(source, DevelopmentKey):
        raise NoDevelopmentKey("tokens come from the identity provider of JWT_JWKS_URL")
    claims = {
        "iss": settings.ENV.jwt_issuer,
        "aud": settings.ENV.jwt_audience,
        "sub": str(user_id),
        "iat": as_of,
        "exp": as_of + lifetime,
        "roles": list(roles),
        "permissions": list(permissions),
    }
    if tenant_id is not None:
        claims["tenant_id"] = str(tenant_id)
    return jwt.encode(claims, source.private, algorithm="EdDSA", headers={"kid": DEVELOPMENT_KEY_ID})
