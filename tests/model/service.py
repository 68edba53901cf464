"""The whole service: what owners do with their events, beside all the rest."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from core.ids import new_id
from pin_calendar import diary, events
from pin_calendar.models import EventOrigin
from tests.model.bookings import Bookings
from tests.model.calendar import are_good
from tests.model.people import (
    PLACES,
    ZONES,
    Batch,
    acting,
    keepers,
    lengths,
    numbers,
    offset_sets,
    pick,
    places,
    reasons,
    seen,
    starts,
)
from tests.model.records import MINUTE, Event


class Service(Bookings):
    """Everything that people and workers do, in any order."""

    @initialize(lead=st.sampled_from([0, 60]), is_auto=st.booleans())
    def open_the_agency(self, lead: int, is_auto: bool) -> None:
        """Slots of two owners, one appointment agreed, as many requests as a client may have; an event, a deadline."""
        self.publish("Anna", "owner", Batch(start=180, count=3, gap=0, lead=lead, is_auto=is_auto))
        self.publish("Anna", "owner", Batch(start=2_880, count=2, gap=30, lead=1_440, is_auto=not is_auto))
        self.publish("Anna", "owner", Batch(start=7_200, count=5, gap=0, lead=lead, is_auto=False))
        self.publish("Boris", "owner", Batch(start=200, count=2, gap=0, lead=lead, is_auto=is_auto))
        of_anna = self.bookable()
        self.book(of_anna[-3], "investor", None)
        self.decide(self.live()[0], "confirm", "owner")
        for slot in (of_anna[-4], of_anna[-5] if is_auto else of_anna[0]):
            self.book(slot, "investor", None)
        self.book(of_anna[-1], "Anna, who is an owner too", None)
        self.create("Boris", "owner", start=90, length=30, offsets=[60, 15])
        self.take_in_a_deadline("Anna", start=3_000, offsets=[1_440, 0])

    @rule(place=places, part=keepers, start=starts, length=lengths, offsets=offset_sets)
    def create_event(self, place: str, part: str, start: int, length: int, offsets: list[int]) -> None:
        self.create(place, part, start=start, length=length, offsets=offsets)

    @rule(place=places, start=starts, offsets=offset_sets.filter(are_good))
    def hear_of_a_deadline(self, place: str, start: int, offsets: list[int]) -> None:
        self.take_in_a_deadline(place, start=start, offsets=offsets)

    def create(self, place: str, part: str, *, start: int, length: int, offsets: list[int]) -> None:
        owner, tenant = PLACES[place]
        event = self._new_event(owner, tenant, start=start, length=length, offsets=offsets)
        actor = acting(part, event)
        draft = diary.Draft(event.title, event.start_at, event.end_at, event.time_zone, tuple(offsets))
        codes = self.model.why_not_create(event, actor=actor)
        if made := self.call(
            codes, lambda: diary.create(draft, owner_user_id=owner, tenant_id=tenant, actor=actor, as_of=self.now)
        ):
            event.id = made.id
            self.model.add_event(event, actor=actor)

    def take_in_a_deadline(self, place: str, *, start: int, offsets: list[int]) -> None:
        """As the CRM's consumer does: an event of origin CrmDeadline has no length."""
        event = self._new_event(*PLACES[place], start=start, length=0, offsets=offsets)
        event.origin, event.source_id = "CrmDeadline", new_id()
        made = events.new(
            tenant_id=event.tenant_id,
            owner_user_id=event.owner_user_id,
            client_user_id=None,
            origin=EventOrigin.CRM_DEADLINE,
            source_id=event.source_id,
            title=event.title,
            start_at=event.start_at,
            end_at=event.end_at,
            time_zone=event.time_zone,
            reminder_offsets_minutes=offsets,
        )
        events.insert([made], as_of=self.now)
        event.id = made.id
        self.model.add_event(event, actor=None)

    def _new_event(self, owner: UUID, tenant: UUID, *, start: int, length: int, offsets: list[int]) -> Event:
        start_at = self.now + start * MINUTE
        return Event(
            id=new_id(),
            tenant_id=tenant,
            owner_user_id=owner,
            created_at=self.now,
            client_user_id=None,
            origin="Manual",
            source_id=None,
            title="Звонок",
            start_at=start_at,
            end_at=start_at + length * MINUTE,
            time_zone=ZONES[1],
            reminder_offsets_minutes=offsets,
        )

    @rule(
        number=numbers,
        part=keepers,
        seen=seen,
        values=st.fixed_dictionaries(
            {},
            optional={
                "title": st.sampled_from(["Звонок", "Показ"]),
                "reminder_offsets_minutes": offset_sets,
                "time_zone": st.sampled_from(ZONES),
                "shift": st.sampled_from([30, -60, 1_440]),
                "length": lengths,
                "is_reversed": st.just(True),
            },
        ),
    )
    def edit_event(self, number: int, part: str, seen: int | None, values: dict[str, Any]) -> None:
        event = pick(self.model.events.values(), number)
        actor = acting(part, event)
        values = dict(values)
        shift, length = values.pop("shift", None), values.pop("length", None)
        if shift is not None:
            values |= {"start_at": event.start_at + shift * MINUTE, "end_at": event.end_at + shift * MINUTE}
        if length is not None:
            values["end_at"] = values.get("start_at", event.start_at) + length * MINUTE
        if values.pop("is_reversed", False):
            values["reminder_offsets_minutes"] = event.reminder_offsets_minutes[::-1]
        codes = self.model.why_not_edit_event(event.id, values, actor=actor)
        version = self.version_seen(codes, event, seen)
        if self.call(codes, lambda: diary.edit(event.id, actor=actor, as_of=self.now, **version, **values)):
            self.model.edit_event(event.id, values, as_of=self.now)

    @rule(
        number=numbers,
        part=keepers,
        seen=seen,
        status=st.sampled_from(["Completed", "Cancelled"]),
        reason=reasons,
    )
    def finish_event(self, number: int, part: str, seen: int | None, status: str, reason: str) -> None:
        event = pick(self.model.events.values(), number)
        actor = acting(part, event)
        codes = self.model.why_not_finish_event(event.id, actor=actor)
        version = self.version_seen(codes, event, seen)
        text = reason if status == "Cancelled" else ""

        def finish() -> object:
            if status == "Cancelled":
                return diary.cancel(event.id, actor=actor, as_of=self.now, reason=text, **version)
            return diary.complete(event.id, actor=actor, as_of=self.now, **version)

        if self.call(codes, finish):
            self.model.finish_event(event.id, status, actor=actor, as_of=self.now, cancel_reason=text)
