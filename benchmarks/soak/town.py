"""The people of a run and what they know of: shared by the threads of the load."""

import datetime
import itertools
import random
import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from core.actors import Actor
from core.ids import new_id
from notifications.models import Locale, Recipient
from ops.demo_data import AGENCY

TENANT = AGENCY
ADMIN = Actor.tenant_admin(UUID("0d3a0000-0000-7000-8000-0000000000e1"), tenant_id=TENANT)
"""Decides for every owner of the agency, whoever that is after a reassignment."""
_KEPT = 400

Thing = TypeVar("Thing")


class Pool(Generic[Thing]):
    """The last few things of a kind, for any thread."""

    def __init__(self) -> None:
        self._things: list[Thing] = []
        self._lock = threading.Lock()

    def add(self, *things: Thing) -> None:
        with self._lock:
            self._things.extend(things)
            del self._things[:-_KEPT]

    def look(self, dice: random.Random) -> Thing | None:
        """One of them, which stays."""
        with self._lock:
            return dice.choice(self._things) if self._things else None

    def take(self, dice: random.Random) -> Thing | None:
        """One of them, which nobody else gets."""
        with self._lock:
            return self._things.pop(dice.randrange(len(self._things))) if self._things else None

    def all(self) -> list[Thing]:
        with self._lock:
            return list(self._things)


@dataclass(frozen=True)
class KnownSlot:
    id: UUID
    owner_user_id: UUID
    start_at: datetime.datetime


@dataclass
class Town:
    """An agency's owners and their clients; what they were last seen to have."""

    opened_at: datetime.datetime
    owners: list[UUID] = field(default_factory=lambda: [new_id() for _ in range(24)])
    clients: list[UUID] = field(default_factory=lambda: [new_id() for _ in range(48)])
    new_slots: Pool[KnownSlot] = field(default_factory=Pool)
    """Never booked, published two days ago."""
    slots: Pool[KnownSlot] = field(default_factory=Pool)
    appointments: Pool[tuple[UUID, KnownSlot]] = field(default_factory=Pool)
    meetings: Pool[tuple[UUID, KnownSlot]] = field(default_factory=Pool)
    """Confirmed appointments that start within the minute."""
    events: Pool[UUID] = field(default_factory=Pool)
    _hours: "itertools.count[int]" = field(default_factory=itertools.count)

    def next_hour(self) -> datetime.datetime:
        """Days ahead, and no other slot's, so that owners who inherit slots have room for most of them."""
        return self.opened_at + datetime.timedelta(days=3, hours=next(self._hours))

    def introduce(self) -> None:
        """Everybody to notifications."""
        Recipient.objects.bulk_create(
            Recipient(user_id=user_id, email=f"person{n}@example.com", locale=Locale.EN if n % 2 else Locale.RU)
            for n, user_id in enumerate([*self.owners, *self.clients])
        )
