"""What a client whose appointment came to nothing is offered instead. Notifications itself knows no slots."""

import datetime
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from notifications.models import Kind, Role

MOST_SLOTS = 3
_TELLING_OF_AN_END = (Kind.APPOINTMENT_EXPIRED, Kind.APPOINTMENT_DECLINED, Kind.APPOINTMENT_CANCELLED_BY_OWNER)


class FreeSlots(Protocol):
    """What NOTIFICATION_FREE_SLOTS names: the starts and time zones of the owner's next free slots, earliest first."""

    def __call__(
        self, owner_user_id: UUID, *, as_of: datetime.datetime, limit: int
    ) -> Sequence[tuple[datetime.datetime, str]]: ...


def are_made(kind: str, *, role: str) -> bool:
    return role == Role.CLIENT and kind in _TELLING_OF_AN_END


def free_slots(owner_user_id: UUID, *, as_of: datetime.datetime) -> Sequence[tuple[datetime.datetime, str]]:
    """The next free slots of the owner, as of the sending."""
    find: FreeSlots = import_string(settings.NOTIFICATION_FREE_SLOTS)
    return find(owner_user_id, as_of=as_of, limit=MOST_SLOTS)


def showcase_link(owner_user_id: UUID) -> str:
    """The showcase, on the owner's slots."""
    parts = urlsplit(settings.ENV.showcase_url)
    query = "&".join(filter(None, [parts.query, urlencode({"ownerId": str(owner_user_id)})]))
    return urlunsplit(parts._replace(query=query))
