"""Idempotency-Key: the key is claimed, and the answer kept, in the transaction of the change itself.

So a key is kept exactly when its change is; a refused request leaves no key and may be tried again. A second request
under the same key waits for the first one, as for any other row.
"""

import datetime
import hashlib
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar
from uuid import UUID

import orjson
from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import BadRequestValues, Fault
from core import sql
from core.errors import Refused
from core.ids import new_id

HEADER = "Idempotency-Key"
LIFETIME = datetime.timedelta(hours=24)
_PURGED_A_CLAIM = 20
_KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)


class KeyReused(Refused):
    """The key was used for another request."""

    code: ClassVar[str] = "idempotency_key_reused"


def once(
    request: Request, change: Callable[[], Response], *, route: str, user_id: UUID, as_of: datetime.datetime
) -> Response:
    """The answer of `change`, or the kept one where the request's key has been answered in the last 24 hours.

    `change` runs in one transaction with the keeping. Raises KeyReused, BadRequestValues for a malformed key.
    """
    key = request.headers.get(HEADER)
    if key is None:
        with transaction.atomic(durable=True):
            return change()
    if not _KEY.fullmatch(key):
        raise BadRequestValues([Fault(HEADER, "must be 1 to 255 visible ASCII characters", "header")])
    # Ids may come in capitals; of a path that takes a key nothing else has a case.
    asked = hashlib.sha256(
        orjson.dumps([request.path.lower(), request.data or {}], option=orjson.OPT_SORT_KEYS)
    ).hexdigest()
    with transaction.atomic(durable=True):
        if not _claim(user_id, route, key, asked, as_of=as_of):
            return _kept(user_id, route, key, asked)
        response = change()
        sql.execute(
            """
            UPDATE idempotency_keys SET status = %s, body = %s::jsonb, etag = %s
            WHERE user_id = %s AND route = %s AND key = %s
            """,
            [
                response.status_code,
                orjson.dumps(response.data).decode(),
                response.headers.get("ETag", ""),
                user_id,
                route,
                key,
            ],
        )
        return response


def _claim(user_id: UUID, route: str, key: str, asked: str, *, as_of: datetime.datetime) -> bool:
    """Whether the key is ours now: new, or older than its lifetime. Waits for another request that is claiming it."""
    _purge(as_of=as_of)
    touched = sql.execute(
        """
        INSERT INTO idempotency_keys AS kept (id, user_id, route, key, request_hash, status, body, etag, created_at)
        VALUES (%s, %s, %s, %s, %s, 0, 'null', '', %s)
        ON CONFLICT (user_id, route, key) DO UPDATE
        SET request_hash = excluded.request_hash, created_at = excluded.created_at WHERE kept.created_at <= %s
        """,
        [new_id(), user_id, route, key, asked, as_of, as_of - LIFETIME],
    )
    return bool(touched)


def _kept(user_id: UUID, route: str, key: str, asked: str) -> Response:
    [(request_hash, status, body, etag)] = sql.fetch(
        "SELECT request_hash, status, body, etag FROM idempotency_keys WHERE user_id = %s AND route = %s AND key = %s",
        [user_id, route, key],
    )
    if request_hash != asked:
        raise KeyReused("this Idempotency-Key was used for another request")
    return Response(body, HTTPStatus(status), headers={"ETag": etag, "Idempotency-Replayed": "true"})


def _purge(*, as_of: datetime.datetime) -> None:
    """Delete some keys past their lifetime; each claim deletes more than it adds, so the table stays small."""
    sql.execute(
        """
        DELETE FROM idempotency_keys WHERE id IN (
            SELECT id FROM idempotency_keys WHERE created_at <= %s ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED)
        """,
        [as_of - LIFETIME, _PURGED_A_CLAIM],
    )
