"""What can happen to a slot, planned by pure functions and written for a list of slots in one statement."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from audit.log import Line
from audit.models import Aggregate
from core import advisory, sql
from core.errors import Inconsistent
from pin_calendar.models import SlotStatus


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot's row as read, usually under its lock. The fields are its columns."""

    id: UUID
    tenant_id: UUID
    owner_user_id: UUID
    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    min_lead_time_minutes: int
    auto_confirm: bool
    status: str
    version: int

    @property
    def bookable_until(self) -> datetime.datetime:
        """The last instant at which the slot can be booked."""
        return self.start_at - datetime.timedelta(minutes=self.min_lead_time_minutes)


@dataclass(frozen=True, slots=True)
class SlotChange:
    slot: Slot
    to: SlotStatus


def read(slot_id: UUID) -> Slot | None:
    """The slot as it is now, without a lock."""
    select = f"SELECT {sql.columns(Slot, 'slot')} FROM availability_slots AS slot WHERE id = %s"
    found = sql.read(Slot, select, [slot_id])
    return found[0] if found else None


def lock(slot_id: UUID) -> Slot | None:
    """The slot, locked, as it is after the wait."""
    sql.execute("SELECT 1 FROM availability_slots WHERE id = %s FOR NO KEY UPDATE", [slot_id])
    return read(slot_id)


def lock_timetable(owner_user_id: UUID) -> None:
    """Let one of those who add or shift live slots of this owner through at a time; to be taken before any row.

    The exclusion constraint keeps slots apart, but makes who writes wait for who has written: two with several slots
    each would wait for each other.
    """
    advisory.lock(f"timetable:{owner_user_id}")


def book(slot: Slot) -> SlotChange:
    """Available → Booked; the caller has checked the showcase's rules."""
    return SlotChange(slot, SlotStatus.BOOKED)


def release(slot: Slot, *, as_of: datetime.datetime) -> SlotChange:
    """INV-SLT-5, the only way out of Booked: back to the showcase while it can still be booked, else Expired."""
    if slot.status != SlotStatus.BOOKED:
        raise Inconsistent(f"slot {slot.id} is {slot.status}, not Booked")
    return SlotChange(slot, SlotStatus.AVAILABLE if as_of <= slot.bookable_until else SlotStatus.EXPIRED)


def write(changes: Sequence[SlotChange], *, as_of: datetime.datetime) -> None:
    """Write the changes of locked slots; raises Inconsistent when one is not as it was read."""
    if not changes:
        return
    sql.write(
        """
        UPDATE availability_slots AS slot SET status = x.status, version = slot.version + 1, updated_at = %s
        FROM jsonb_to_recordset(%s::jsonb) AS x(id uuid, version int, status text)
        WHERE slot.id = x.id AND slot.version = x.version AND slot.id = ANY(%s::uuid[])
        """,
        [
            as_of,
            sql.as_json({"id": c.slot.id, "version": c.slot.version, "status": c.to} for c in changes),
            sql.array(change.slot.id.hex for change in changes),
        ],
        check=sql.expect(len(changes), of="slots"),
    )


def audit_lines(changes: Iterable[SlotChange], *, verb: str) -> list[Line]:
    """One line a slot."""
    return [Line(Aggregate.SLOT, c.slot.id, c.slot.tenant_id, verb, c.slot.status, c.to) for c in changes]
