"""What notifications may say of an owner's free slots: NOTIFICATION_FREE_SLOTS names it (docs/adr)."""

import datetime
from uuid import UUID

from core import zones
from pin_calendar import showcase


def find(owner_user_id: UUID, *, as_of: datetime.datetime, limit: int) -> list[tuple[datetime.datetime, str]]:
    """The starts and time zones of the next slots of the owner that can be booked, earliest first.

    A zone that nobody knows was written past the service; such a slot is left out, for no local time can be told of it.
    """
    slots = showcase.bookable(as_of=as_of, limit=limit, owner_id=owner_user_id).items
    return [(slot.start_at, slot.time_zone) for slot in slots if zones.is_known(slot.time_zone)]
