"""Messages for the tests of the outbox, on fixed instants."""

import datetime
from uuid import UUID

from contracts import calendar
from core.ids import new_id

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
TENANT = UUID("00000000-0000-7000-8000-000000000001")


def a_change(
    event_id: UUID | None = None, *, version: int = 1, zone: str = "Europe/Riga"
) -> calendar.EventStatusChanged:
    """A status change of the event (a fresh one if none is given): `version` tells one change from the next."""
    return calendar.EventStatusChanged(
        tenant_id=TENANT,
        occurred_at=NOON,
        aggregate_version=version,
        event_id=event_id or new_id(),
        owner_user_id=TENANT,
        origin=calendar.EventOrigin.MANUAL,
        previous_status=calendar.EventStatus.SCHEDULED,
        status=calendar.EventStatus.COMPLETED,
        start_at=NOON,
        time_zone=zone,
    )
