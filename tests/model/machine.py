"""The service and its model side by side: time, the workers, and the owners' slots."""

import datetime
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from appointments.timeout import TimeoutJob
from core.errors import Refused
from ops import proof
from pin_calendar import publishing
from reminders.dispatch import DispatchJob
from tests.factories import MICROSECOND, NOON
from tests.keep_going import always
from tests.model import stored
from tests.model.calendar import STALE_AFTER
from tests.model.model import Model
from tests.model.people import (
    PLACES,
    ZONES,
    Batch,
    acting,
    batches,
    keepers,
    nudges,
    numbers,
    pick,
    places,
    seen,
)
from tests.model.records import LIVE_SLOT, MINUTE, Record, Slot

Result = TypeVar("Result")


class Machine(RuleBasedStateMachine):
    """One example is one transaction, rolled back at its end: nothing is committed, nothing need be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.model = Model()
        self.timeout_jobs = {size: TimeoutJob(chunk_size=size) for size in (1, 200)}
        self._dispatcher = DispatchJob(stale_after=STALE_AFTER, now=lambda: self.now)
        self._example = transaction.atomic()
        # As Django's TestCase marks its own, so that durable blocks may nest.
        self._example._from_testcase = True  # type: ignore[attr-defined]
        self._example.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._example.__exit__(None, None, None)

    @invariant()
    def the_database_equals_the_model(self) -> None:
        stored.assert_equal(self.model)

    @invariant()
    def the_invariants_hold(self) -> None:
        assert [finding for finding in proof.check(as_of=self.now) if finding.is_violated] == []

    def call(self, codes: set[str], call: Callable[[], Result]) -> Result | None:
        """The result; None where the model expects a refusal, which must be for one of its reasons."""
        if not codes:
            return call()
        with pytest.raises(Refused) as refusal:
            call()
        assert refusal.value.code in codes
        return None

    def version_seen(self, codes: set[str], record: Record, seen: int | None) -> dict[str, int]:
        """The keyword of the call; a stale version is one more reason to refuse, for whoever may see the record."""
        if seen is None:
            return {}
        if seen and codes != {"not_found"}:
            codes.add("version_conflict")
        return {"seen_version": record.version + seen}

    # ---- time and the dispatcher

    @rule(minutes=st.sampled_from([0, 0, 0, 1, 30, 240]), number=numbers, by=nudges)
    def pass_time(self, minutes: int, number: int, by: int) -> None:
        """Some minutes, or until a slot can't be booked any more, or an event starts or ends."""
        self.now += minutes * MINUTE
        if not minutes:
            events = [event for event in self.model.events.values() if event.status == "Scheduled"]
            edges = [slot.bookable_until for slot in self.model.slots.values() if slot.status in LIVE_SLOT]
            self.wait_for(edges + [edge for event in events for edge in (event.start_at, event.end_at)], number, by)

    def wait_for(self, edges: list[datetime.datetime], number: int, by: int) -> None:
        """To exactly where a rule says <, <=, > or >=, or to the instant beside it: one of the next three edges."""
        ahead = sorted(edge for edge in edges if edge > self.now)[:3]
        if ahead:
            self.now = max(self.now, ahead[number % len(ahead)] + by * MICROSECOND)

    @rule(limit=st.sampled_from([500, 1, 2]), number=numbers, by=nudges)
    def dispatch(self, limit: int, number: int, by: int) -> None:
        pending = [reminder for reminder in self.model.reminders if reminder.status == "Pending"]
        ends = [self.model.events[reminder.event_id].end_at for reminder in pending]
        edges = [reminder.due_at for reminder in pending] + [end_at + STALE_AFTER for end_at in ends]
        self.wait_for(edges, number, by)
        result = self._dispatcher.cycle(as_of=self.now, limit=limit, keep_going=always)
        assert (result.sent_count, result.skipped_count) == self.model.dispatch(as_of=self.now)
        assert (result.skipped_locked_count, result.failed_count) == (0, 0)

    # ---- slots

    @rule(place=places, part=keepers, batch=batches)
    def publish_slots(self, place: str, part: str, batch: Batch) -> None:
        self.publish(place, part, batch)

    def publish(self, place: str, part: str, batch: Batch) -> None:
        owner, tenant = PLACES[place]
        first = self.now.replace(second=0, microsecond=0) + batch.start * MINUTE
        step = (60 + batch.gap) * MINUTE
        windows = [(first + n * step, first + n * step + 60 * MINUTE) for n in range(batch.count)]
        terms: dict[str, Any] = {"min_lead_time_minutes": batch.lead, "auto_confirm": batch.is_auto}
        drafts = [publishing.Draft(*window, ZONES[0], **terms) for window in windows]
        whose = Record(id=owner, tenant_id=tenant, owner_user_id=owner, created_at=self.now)
        actor = acting(part, whose)
        codes = self.model.why_not_publish(windows, whose=whose, actor=actor, as_of=self.now)
        slots = self.call(
            codes,
            lambda: publishing.publish(drafts, owner_user_id=owner, tenant_id=tenant, actor=actor, as_of=self.now),
        )
        for slot, (start_at, end_at) in zip(slots or [], windows, strict=bool(slots)):
            self.model.publish(
                Slot(
                    id=slot.id,
                    tenant_id=tenant,
                    owner_user_id=owner,
                    created_at=self.now,
                    start_at=start_at,
                    end_at=end_at,
                    time_zone=ZONES[0],
                    **terms,
                ),
                actor=actor,
            )

    @rule(
        number=numbers,
        part=keepers,
        seen=seen,
        values=st.fixed_dictionaries(
            {},
            optional={
                "min_lead_time_minutes": st.sampled_from([0, 60, 600]),
                "auto_confirm": st.booleans(),
                "time_zone": st.sampled_from(ZONES),
                "shift": st.sampled_from([0, 30, 1_440, 90, -60]),
            },
        ),
    )
    def edit_slot(self, number: int, part: str, seen: int | None, values: dict[str, Any]) -> None:
        slot = pick(self.model.slots.values(), number)
        actor = acting(part, slot)
        values = dict(values)
        if (shift := values.pop("shift", None)) is not None:
            values |= {"start_at": slot.start_at + shift * MINUTE, "end_at": slot.end_at + shift * MINUTE}
        codes = self.model.why_not_edit_slot(slot.id, values, actor=actor, as_of=self.now)
        version = self.version_seen(codes, slot, seen)
        if self.call(codes, lambda: publishing.edit(slot.id, actor=actor, as_of=self.now, **version, **values)):
            self.model.edit_slot(slot.id, values, as_of=self.now)

    @rule(number=numbers, part=keepers, seen=seen)
    def withdraw_slot(self, number: int, part: str, seen: int | None) -> None:
        slot = pick(self.model.slots.values(), number)
        actor = acting(part, slot)
        codes = self.model.why_not_withdraw(slot.id, actor=actor)
        version = self.version_seen(codes, slot, seen)
        if self.call(codes, lambda: publishing.withdraw(slot.id, actor=actor, as_of=self.now, **version)):
            self.model.withdraw(slot.id, actor=actor, as_of=self.now)
