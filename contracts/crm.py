"""What the CRM tells the calendar. Its producers keep to these classes; each record carries a CloudEvents `ce_id`."""

from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from contracts.base import Contract, Instant

Revision = Annotated[int, Field(ge=1)]


class DeadlineState(StrEnum):
    OPEN = "Open"
    MOVED = "Moved"
    CLOSED = "Closed"
    CANCELLED = "Cancelled"


class BookingDeadlineChanged(Contract):
    """A booking in the CRM has a deadline, as of this revision of the booking."""

    TOPIC: ClassVar[str] = "pin.crm.booking-deadline-changed.v1"
    KEY_FIELD: ClassVar[str] = "booking_id"

    booking_id: UUID
    owner_user_id: UUID
    client_user_id: UUID | None = None
    title: Annotated[str, Field(max_length=500)]
    deadline_at: Instant
    time_zone: str
    state: DeadlineState
    revision: Revision


class AssigneeChanged(Contract):
    """What one owner had open is another's from now on, as of this revision of the tenant's assignments."""

    TOPIC: ClassVar[str] = "pin.crm.assignee-changed.v1"
    KEY_FIELD: ClassVar[str] = "tenant_id"

    from_owner_user_id: UUID
    to_owner_user_id: UUID
    revision: Revision


CONSUMED: tuple[type[Contract], ...] = (BookingDeadlineChanged, AssigneeChanged)
