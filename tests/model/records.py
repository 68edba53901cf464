"""What the model holds, in the words of the spec: fields are the columns of the tables, statuses as they are stored."""

import datetime
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from core.actors import Actor, ActorKind

MINUTE = datetime.timedelta(minutes=1)
DAY = datetime.timedelta(days=1)
LIVE = ("Pending", "Confirmed")
LIVE_SLOT = ("Available", "Booked")


@dataclass(kw_only=True)
class Record:
    id: UUID
    tenant_id: UUID
    owner_user_id: UUID
    created_at: datetime.datetime
    updated_at: datetime.datetime = field(init=False)
    version: int = 1

    def __post_init__(self) -> None:
        self.updated_at = self.created_at

    def change(self, as_of: datetime.datetime, **values: Any) -> None:
        """Every aggregate: version + 1 on each change, whatever it is that changes."""
        for name, value in values.items():
            setattr(self, name, value)
        self.version += 1
        self.updated_at = as_of

    def is_owned_by(self, actor: Actor) -> bool:
        """An owner in their tenant; a tenant admin and an operator act as the owner."""
        return actor.kind is ActorKind.OPERATOR or (
            actor.tenant_id == self.tenant_id
            and (actor.kind is ActorKind.TENANT_ADMIN or actor.user_id == self.owner_user_id)
        )


@dataclass(kw_only=True)
class Slot(Record):
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    min_lead_time_minutes: int
    auto_confirm: bool
    status: str = "Available"

    @property
    def bookable_until(self) -> datetime.datetime:
        return self.start_at - self.min_lead_time_minutes * MINUTE

    def overlaps(self, start_at: datetime.datetime, end_at: datetime.datetime) -> bool:
        """Back-to-back is allowed."""
        return self.status in LIVE_SLOT and self.start_at < end_at and start_at < self.end_at


@dataclass(kw_only=True)
class Event(Record):
    client_user_id: UUID | None
    origin: str
    source_id: UUID | None
    title: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    reminder_offsets_minutes: list[int]
    status: str = "Scheduled"
    cancel_reason: str = ""


@dataclass(kw_only=True)
class Appointment(Record):
    slot_id: UUID
    calendar_event_id: UUID
    client_user_id: UUID
    status: str
    pending_expires_at: datetime.datetime | None
    cancelled_by: str | None = None
    cancel_reason: str = ""

    def party(self, actor: Actor) -> str | None:
        """The actor's part in it; one who is both acts as the owner."""
        if self.is_owned_by(actor):
            return "Owner"
        return "Client" if actor.user_id == self.client_user_id else None


@dataclass(kw_only=True)
class Reminder:
    event_id: UUID
    offset_minutes: int
    due_at: datetime.datetime
    created_at: datetime.datetime
    updated_at: datetime.datetime
    status: str = "Pending"
    sent_at: datetime.datetime | None = None
    skip_reason: str | None = None


@dataclass(frozen=True)
class AuditLine:
    aggregate: str
    aggregate_id: UUID
    from_status: str
    to_status: str
    actor_kind: str
    actor_user_id: UUID | None
    occurred_at: datetime.datetime


@dataclass(frozen=True)
class Told:
    """A message: its topic without prefix and version, its key, and its value as it is on the wire."""

    topic: str
    key: str
    value: dict[str, Any]
