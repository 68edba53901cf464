"""Sessions of PostgreSQL beside Django's own."""

from typing import Any

from django.db import connection


def direct() -> dict[str, Any]:
    """How psycopg connects to the database that Django uses now."""
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if name in parameters}
