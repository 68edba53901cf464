"""Ids are UUIDv7 made by the application: they sort by time, so indexes grow at their right edge."""

from uuid import UUID

import uuid_utils
from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh UUIDv7; later calls in a process sort after earlier ones."""
    return uuid7()


def new_id_text() -> str:
    """The same as text, for rows and headers by the hundred: making a UUID of it costs ten times as much."""
    return str(uuid_utils.uuid7())
