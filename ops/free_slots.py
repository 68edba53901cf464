"""What notifications may say of an owner's free slots: NOTIFICATION_FREE_SLOTS names it (docs/adr)."""

import datetime
from uuid import UUID

from pin_calendar import showcase


def find(owner_user_id: UUID, *, as_of: datetime.datetime, limit: int) -> list[tuple[datetime.datetime, str]]:
    """The starts and time zones of the next slots of the owner that can be booked, earliest first."""
    slots = showcase.bookable(as_of=as_of, limit=limit, owner_id=owner_user_id).items
    return [(slot.start_at, slot.time_zone) for slot in slots]
