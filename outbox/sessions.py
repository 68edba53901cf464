"""Database sessions of the relay's own, beside Django's connection: never recycled, never through a pooler."""

from typing import Any

import psycopg
from django.db import connection

from workers.job import JobUnavailable

# The server's own keepalives: they end the session, and with it the locks, of a relay whose host has gone without a
# word. Those in the settings only tell us of the server.
_SERVER_SIDE = (
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET tcp_user_timeout = '20s'"
)
_DJANGO_ONLY = ("cursor_factory", "context", "prepare_threshold", "server_side_binding")


class PoolerDetected(JobUnavailable):
    """DATABASE_URL leads to a pooler, behind which a session's locks belong to nobody."""


def connect(application: str) -> psycopg.Connection[Any]:
    """A session in autocommit mode with the time limits of the settings, and keepalives on both sides.

    Raises PoolerDetected.
    """
    parameters: dict[str, Any] = {
        name: value for name, value in connection.get_connection_params().items() if name not in _DJANGO_ONLY
    }
    session = psycopg.connect(**{**parameters, "application_name": application, "autocommit": True})
    try:
        _refuse_pooler(session)
        session.execute(_SERVER_SIDE)
    except BaseException:
        session.close()
        raise
    return session


def _refuse_pooler(session: psycopg.Connection[Any]) -> None:
    """A pooler answers the log-in itself and makes up the process id that it hands out."""
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    if row is None or row[0] != session.info.backend_pid:
        raise PoolerDetected("the relay needs a direct connection to PostgreSQL, and DATABASE_URL leads to a pooler")
