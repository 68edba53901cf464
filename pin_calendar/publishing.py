"""The owner's use cases of slots: publish, edit while Available, withdraw."""

import datetime
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from core import sql, zones
from core.actors import Actor
from core.database import constraint_name
from core.errors import InvalidField, NotFound, Refused, refuse_stale
from core.ids import new_id
from pin_calendar import slots
from pin_calendar.drafts import changes
from pin_calendar.models import DEFAULT_LEAD_TIME_MINUTES, SlotStatus, in_utc
from pin_calendar.slots import Slot, SlotChange

MAX_LEAD_TIME_MINUTES = 525_600  # a year


class SlotOverlap(Refused):
    """Slots overlap live ones of the owner's, or each other; `facts["conflicts"]` lists them as {start_at, end_at}.

    Of the owner's those of the same tenant alone: another tenant's timetable is told to nobody here.
    """

    code = "slot_overlap"


class SlotNotAvailable(Refused):
    """Only an Available slot can be edited or withdrawn."""

    code = "slot_not_available"


@dataclass(frozen=True, slots=True)
class Draft:
    """A slot as its owner wants it; times are aware."""

    start_at: datetime.datetime
    end_at: datetime.datetime
    time_zone: str
    min_lead_time_minutes: int = DEFAULT_LEAD_TIME_MINUTES
    auto_confirm: bool = False

    def checked(self, *, as_of: datetime.datetime) -> "Draft":
        """The draft with its times in UTC and its zone's canonical name. Raises InvalidField."""
        zone = zones.checked(self.time_zone)
        start_at, end_at = in_utc("start_at", self.start_at), in_utc("end_at", self.end_at)
        if end_at <= start_at:
            raise InvalidField("end_at", "must be after start_at")
        if start_at <= as_of:
            raise InvalidField("start_at", "must be ahead")
        if not 0 <= self.min_lead_time_minutes <= MAX_LEAD_TIME_MINUTES:
            raise InvalidField("min_lead_time_minutes", f"must be from 0 to {MAX_LEAD_TIME_MINUTES}")
        return replace(self, start_at=start_at, end_at=end_at, time_zone=zone)


@transaction.atomic(durable=True)
def publish(
    drafts: Sequence[Draft], *, owner_user_id: UUID, tenant_id: UUID, actor: Actor, as_of: datetime.datetime
) -> list[Slot]:
    """New Available slots, all of them or none. Raises NotFound for whom it is not to do, InvalidField, SlotOverlap."""
    if not actor.acts_for_owner(owner_user_id, tenant_id):
        raise NotFound(f"there is no owner {owner_user_id}")
    new = [
        Slot(
            id=new_id(),
            tenant_id=tenant_id,
            owner_user_id=owner_user_id,
            status=SlotStatus.AVAILABLE.value,
            version=1,
            **_columns(draft.checked(as_of=as_of)),
        )
        for draft in drafts
    ]
    slots.lock_timetable(owner_user_id)
    _refuse_overlap(new)
    names = ", ".join(field.name for field in fields(Slot))
    with _overlap_told(new):
        sql.execute(
            f"""
            INSERT INTO availability_slots ({names}, created_at, updated_at)
            SELECT {sql.columns(Slot, "x")}, %s, %s
            FROM jsonb_to_recordset(%s::jsonb) AS x(
                id uuid, tenant_id uuid, owner_user_id uuid, start_at timestamptz, end_at timestamptz, time_zone text,
                min_lead_time_minutes int, auto_confirm bool, status text, version int)
            """,
            [as_of, as_of, sql.as_json(new)],
        )
    lines = [Line(Aggregate.SLOT, slot.id, slot.tenant_id, "publish", "", slot.status) for slot in new]
    audit_log.record(lines, actor=actor, as_of=as_of)
    return new


@transaction.atomic(durable=True)
def withdraw(slot_id: UUID, *, actor: Actor, as_of: datetime.datetime, seen_version: int | None = None) -> Slot:
    """Available → Withdrawn. Raises NotFound, VersionConflict, SlotNotAvailable."""
    slot = _hold(slot_id, actor=actor, seen_version=seen_version)
    change = SlotChange(slot, SlotStatus.WITHDRAWN)
    slots.write([change], as_of=as_of)
    audit_log.record(slots.audit_lines([change], verb="withdraw"), actor=actor, as_of=as_of)
    return replace(slot, status=change.to.value, version=slot.version + 1)


@transaction.atomic(durable=True)
def edit(
    slot_id: UUID,
    *,
    actor: Actor,
    as_of: datetime.datetime,
    seen_version: int | None = None,
    **values: Any,
) -> Slot:
    """Other values for fields of `Draft`, while the slot is Available; equal ones change nothing.

    Raises NotFound, VersionConflict, SlotNotAvailable, InvalidField, SlotOverlap.
    """
    if seen := slots.read(slot_id):
        slots.lock_timetable(seen.owner_user_id)
    slot = _hold(slot_id, actor=actor, seen_version=seen_version)
    present = Draft(**{field.name: getattr(slot, field.name) for field in fields(Draft)})
    wanted = replace(present, **values).checked(as_of=as_of)
    changed = changes(present, wanted, values)
    if not changed:
        return slot
    edited = replace(slot, **changed, version=slot.version + 1)
    _refuse_overlap([edited])
    with _overlap_told([edited]):
        sql.execute(
            """
            UPDATE availability_slots SET start_at = %s, end_at = %s, time_zone = %s, min_lead_time_minutes = %s,
                   auto_confirm = %s, version = %s, updated_at = %s WHERE id = %s
            """,
            [*_columns(edited).values(), edited.version, as_of, slot_id],
        )
    audit_log.record(
        [Line(Aggregate.SLOT, slot.id, slot.tenant_id, "edit", slot.status, slot.status)], actor=actor, as_of=as_of
    )
    return edited


def _columns(values: Draft | Slot) -> dict[str, Any]:
    return {field.name: getattr(values, field.name) for field in fields(Draft)}


def _hold(slot_id: UUID, *, actor: Actor, seen_version: int | None) -> Slot:
    slot = slots.lock(slot_id)
    if slot is None or not actor.acts_for_owner(slot.owner_user_id, slot.tenant_id):
        raise NotFound(f"there is no slot {slot_id}")
    refuse_stale(f"slot {slot_id}", version=slot.version, seen=seen_version)
    if slot.status != SlotStatus.AVAILABLE:
        raise SlotNotAvailable(f"slot {slot_id} is {slot.status}", status=slot.status)
    return slot


def _refuse_overlap(wanted: Sequence[Slot]) -> None:
    among_themselves = _overlapping(wanted)
    live = _live_slots_at(wanted)
    if among_themselves or live:
        tenant_id, owner_user_id = wanted[0].tenant_id, wanted[0].owner_user_id
        told = [*among_themselves, *(slot for slot in live if slot.tenant_id == tenant_id)]
        raise SlotOverlap(
            f"{len(among_themselves)} slots overlap others given with them, {len(live)} live slots of owner "
            f"{owner_user_id} are at these times",
            conflicts=[{"start_at": slot.start_at, "end_at": slot.end_at} for slot in told],
        )


def _overlapping(wanted: Sequence[Slot]) -> list[Slot]:
    """Those that begin before an earlier one has ended."""
    in_order = sorted(wanted, key=lambda slot: slot.start_at)
    latest_ends = itertools.accumulate((slot.end_at for slot in in_order), max)
    return [later for ends_at, later in zip(latest_ends, in_order[1:], strict=False) if later.start_at < ends_at]


def _live_slots_at(wanted: Sequence[Slot]) -> list[Slot]:
    return sql.read(
        Slot,
        f"""
        SELECT DISTINCT {sql.columns(Slot, "slot")} FROM availability_slots AS slot
        JOIN jsonb_to_recordset(%s::jsonb) AS x(id uuid, owner_user_id uuid, start_at timestamptz, end_at timestamptz)
          ON slot.owner_user_id = x.owner_user_id AND slot.status IN ('Available', 'Booked') AND slot.id <> x.id
         AND tstzrange(slot.start_at, slot.end_at, '[)') && tstzrange(x.start_at, x.end_at, '[)')
        ORDER BY slot.start_at
        """,
        [sql.as_json(wanted)],
    )


@contextmanager
def _overlap_told(wanted: Sequence[Slot]) -> Iterator[None]:
    """Another request may publish at the same times in this moment; then the constraint refuses."""
    try:
        yield
    except IntegrityError as error:
        if constraint_name(error) != "ex_availability_slots_owner_live_overlap":
            raise
        raise SlotOverlap(f"live slots of owner {wanted[0].owner_user_id} are at these times", conflicts=[]) from error
