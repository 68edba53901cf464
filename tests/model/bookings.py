"""What clients and owners do with appointments, in any order."""

import datetime

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from appointments import booking, decisions, reassignment, rescheduling
from appointments.matrix import Verb
from core.actors import Actor
from pin_calendar.models import CalendarEvent
from tests.factories import MICROSECOND
from tests.keep_going import always
from tests.model.machine import Machine
from tests.model.model import DECISIONS
from tests.model.people import (
    CLIENTS,
    PLACES,
    Batch,
    acting,
    clients,
    handovers,
    keepers,
    nudges,
    numbers,
    parties,
    pick,
    places,
    rarely,
    reasons,
    seen,
)
from tests.model.records import DAY, LIVE, Appointment, Record, Slot


class Bookings(Machine):
    """Rules look for what fits, so as to reach deep; some of the time for anything, so as to meet every refusal."""

    def bookable(self) -> list[Slot]:
        return [s for s in self.model.slots.values() if s.status == "Available" and self.now <= s.bookable_until]

    def live(self) -> list[Appointment]:
        return [appointment for appointment in self.model.appointments.values() if appointment.status in LIVE]

    def deadlines(self) -> list[datetime.datetime]:
        pending = [appointment for appointment in self.live() if appointment.status == "Pending"]
        return [appointment.pending_expires_at for appointment in pending if appointment.pending_expires_at]

    @precondition(lambda self: len(self.bookable()) < 3)
    @rule(place=places, lead=st.sampled_from([0, 60]), is_auto=st.booleans(), client=clients)
    def begin_another_week(self, place: str, lead: int, is_auto: bool, client: str) -> None:
        """However far time has run: there is something to book and to move to again."""
        self.publish(place, "owner", Batch(start=1_470, count=3, gap=30, lead=lead, is_auto=is_auto))
        self.publish(place, "owner", Batch(start=5_790, count=3, gap=0, lead=lead, is_auto=False))
        if self.bookable():
            self.book(self.bookable()[-1], client, None)

    @rule(is_any=rarely, number=numbers, client=clients, seen=seen)
    def book_a_slot(self, is_any: bool, number: int, client: str, seen: int | None) -> None:
        bookable = [] if is_any else self.bookable()
        self.book(pick(bookable or self.model.slots.values(), number), client, seen)

    def book(self, slot: Slot, client: str, seen: int | None) -> None:
        actor = CLIENTS[client]
        codes = self.model.why_not_book(slot.id, actor=actor, as_of=self.now)
        version = self.version_seen(codes, slot, seen)
        if made := self.call(codes, lambda: booking.book(slot.id, actor=actor, as_of=self.now, **version)):
            self.model.book(
                slot.id,
                appointment_id=made.id,
                event_id=made.calendar_event_id,
                title=CalendarEvent.objects.get(pk=made.calendar_event_id).title,  # the spec leaves it to the service
                actor=actor,
                as_of=self.now,
            )

    @rule(
        chunk_size=st.sampled_from([1, 200]),
        limit=st.sampled_from([200, 200, 1, 2]),
        client=clients,
        number=numbers,
        by=nudges,
    )
    def expire(self, chunk_size: int, limit: int, client: str, number: int, by: int) -> None:
        """Beside the deadline of a request; where there is none, one is made."""
        if not self.deadlines() and self.bookable():
            self.book(pick(self.bookable(), number), client, None)
        self.wait_for(self.deadlines(), number, by)
        result = self.timeout_jobs[chunk_size].cycle(as_of=self.now, limit=limit, keep_going=always)
        outcomes = self.model.expire_overdue(as_of=self.now, limit=limit)
        counts = (result.expired_count, result.slots_released_count, result.slots_expired_count)
        assert counts == (len(outcomes), outcomes.count("Released"), outcomes.count("Expired"))
        assert (result.skipped_locked_count, result.failed_count) == (0, 0)

    @precondition(lambda self: self.live())
    @rule(number=numbers, verb=st.sampled_from(["confirm", "decline"]), part=keepers, reason=reasons, seen=seen)
    def answer(self, number: int, verb: str, part: str, reason: str, seen: int | None) -> None:
        self.decide(pick(self.live(), number), verb, part, reason=reason, seen=seen)

    @precondition(lambda self: self.live())
    @rule(number=numbers, is_late=st.booleans(), by=nudges, part=parties, reason=reasons)
    def cancel(self, number: int, is_late: bool, by: int, part: str, reason: str) -> None:
        """Also around the instant from which on the slot can't be released to the showcase."""
        appointment = pick(self.live(), number)
        if is_late:
            self.wait_for([self.model.slots[appointment.slot_id].bookable_until], 0, by)
        self.decide(appointment, "cancel", part, reason=reason)

    @precondition(lambda self: self.live())
    @rule(number=numbers, by=nudges, verb=st.sampled_from(list(DECISIONS)), part=keepers)
    def wait_for_the_start_and_decide(self, number: int, by: int, verb: str, part: str) -> None:
        appointment = pick(self.live(), number)
        start_at = self.model.slots[appointment.slot_id].start_at
        self.now = max(self.now, start_at + by * MICROSECOND)
        self.decide(appointment, verb, part)

    @rule(number=numbers, verb=st.sampled_from(list(DECISIONS)), part=parties)
    def decide_anything(self, number: int, verb: str, part: str) -> None:
        self.decide(pick(self.model.appointments.values(), number), verb, part)

    def decide(
        self, appointment: Appointment, verb: str, part: str, *, reason: str = "", seen: int | None = None
    ) -> None:
        id_, actor = appointment.id, acting(part, appointment)
        text = reason if verb in ("cancel", "decline") else ""
        codes = self.model.why_not_decide(id_, verb, actor=actor, as_of=self.now)
        version = self.version_seen(codes, appointment, seen)
        if self.call(
            codes, lambda: decisions.change(id_, Verb(verb), actor=actor, as_of=self.now, reason=text, **version)
        ):
            self.model.decide(id_, verb, actor=actor, as_of=self.now, reason=text)

    @rule(is_any=rarely, number=numbers, to=numbers, part=parties, seen=seen)
    def reschedule(self, is_any: bool, number: int, to: int, part: str, seen: int | None) -> None:
        self.move(number, to, part, seen=seen, is_any=is_any)

    @rule(number=numbers, to=numbers)
    def let_the_client_move(self, number: int, to: int) -> None:
        self.move(number, to, "client")

    @precondition(lambda self: self.live())
    @rule(number=numbers, to=numbers, part=parties)
    def change_ones_mind_the_next_day(self, number: int, to: int, part: str) -> None:
        """A request's 24 hours are over, or begin anew; some slots are still ahead."""
        self.now += DAY
        self.move(number, to, part)

    def move(self, number: int, to: int, part: str, *, seen: int | None = None, is_any: bool = False) -> None:
        ahead = [a for a in self.live() if self.now < self.model.slots[a.slot_id].start_at]
        appointment = pick((not is_any and ahead) or self.model.appointments.values(), number)
        whose = appointment.owner_user_id, appointment.tenant_id
        fitting = [slot for slot in self.bookable() if (slot.owner_user_id, slot.tenant_id) == whose]
        fitting.sort(key=lambda slot: not slot.auto_confirm)  # the rarer ones first
        slot = pick((not is_any and fitting) or self.model.slots.values(), to)
        id_, actor = appointment.id, acting(part, appointment)
        codes = self.model.why_not_reschedule(id_, slot.id, actor=actor, as_of=self.now)
        version = self.version_seen(codes, appointment, seen)
        if self.call(codes, lambda: rescheduling.reschedule(id_, slot.id, actor=actor, as_of=self.now, **version)):
            self.model.reschedule(id_, slot.id, actor=actor, as_of=self.now)

    @rule(
        pair=handovers,
        part=st.sampled_from(["admin", "admin", "operator", "owner", "admin elsewhere"]),
    )
    def reassign(self, pair: tuple[str, str], part: str) -> None:
        (source_id, tenant), (target_id, _) = PLACES[pair[0]], PLACES[pair[1]]
        actor = acting(part, Record(id=source_id, tenant_id=tenant, owner_user_id=source_id, created_at=self.now))
        whose = {"tenant_id": tenant, "from_owner_id": source_id, "to_owner_id": target_id}
        codes = self.model.why_not_reassign(**whose, actor=actor, as_of=self.now)
        if self.call(codes, lambda: reassignment.reassign(**whose, actor=actor, as_of=self.now)):
            self.model.reassign(**whose, actor=actor, as_of=self.now)

    @precondition(lambda self: self.live())
    @rule(number=numbers, is_late=st.booleans(), by=nudges, to=places)
    def hand_over(self, number: int, is_late: bool, by: int, to: str) -> None:
        """As the CRM's consumer does: what conflicts stays, and what has ended."""
        appointment, (target_id, _) = pick(self.live(), number), PLACES[to]
        source_id, tenant = appointment.owner_user_id, appointment.tenant_id
        if source_id == target_id:
            return
        if is_late:
            self.wait_for([self.model.slots[appointment.slot_id].end_at], 0, by)
        whose = {"tenant_id": tenant, "from_owner_id": source_id, "to_owner_id": target_id}
        result = reassignment.hand_over(**whose, actor=Actor.system(), as_of=self.now)
        conflicting = self.model.conflicting(**whose, as_of=self.now)
        assert set(result.conflicting_appointment_ids) == {appointment.id for appointment in conflicting}
        self.model.reassign(**whose, actor=Actor.system(), as_of=self.now)
