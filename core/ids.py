"""Ids are UUIDv7 made by the application: they sort by time, so indexes grow at their right edge."""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh UUIDv7; later calls in a process sort after earlier ones."""
    return uuid7()
