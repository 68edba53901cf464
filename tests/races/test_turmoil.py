"""Everybody at once, in no order: workers, and people who decide, move and reassign the same appointments."""

import random
import threading
from functools import partial

import pytest

from appointments import booking, decisions, reassignment, rescheduling
from appointments.matrix import Verb
from appointments.models import Appointment
from appointments.timeout import TimeoutJob
from core.actors import Actor
from core.errors import InvalidField, NotFound, Refused
from core.ids import new_id
from pin_calendar import diary
from pin_calendar.models import AvailabilitySlot
from tests.appointments.concurrently import together
from tests.factories import DAY, HOUR, MINUTE, NOON, TENANT, SlotFactory, an_open_appointment, an_overdue_appointment
from tests.invariants import violations
from tests.keep_going import always
from tests.races.scenes import dispatch_due
from tests.races.story import Story

pytestmark = pytest.mark.django_db(transaction=True)

OWNERS = 4
APPOINTMENTS_AN_OWNER = 15
PEOPLE = 6
ACTS = 40


def _people_and_their_appointments() -> list[Actor]:
    """Requests that lapse, requests that do not, meetings with due reminders; free slots of every owner to move to."""
    owners = [Actor.user(new_id(), tenant_id=TENANT) for _ in range(OWNERS)]
    for place, owner in enumerate(owners):
        for number in range(APPOINTMENTS_AN_OWNER):
            # Owners' hours differ, so that most reassignments find no conflict.
            start_at = NOON + 2 * HOUR + (number * OWNERS + place) * HOUR
            make = an_overdue_appointment if number % 3 else an_open_appointment
            deadline = NOON - MINUTE if number % 3 else min(NOON + HOUR, start_at - HOUR)
            make(
                slot__owner_user_id=owner.user_id,
                start_at=start_at,
                pending_expires_at=deadline,
                created_at=deadline - 3 * DAY if number % 2 else deadline - HOUR,
            )
        for number in range(5):
            SlotFactory.create(owner_user_id=owner.user_id, start_at=NOON + 30 * DAY + (number * OWNERS + place) * HOUR)
    return owners


class Person:
    """Does one thing after another to appointments picked at random; being refused is part of life."""

    def __init__(self, seed: int, owners: list[Actor]) -> None:
        self._random = random.Random(seed)
        self._owners = owners
        self.done = 0

    def live(self) -> None:
        for _ in range(ACTS):
            try:
                self._random.choices(
                    [self._decide, self._reschedule, self._edit, self._reassign, self._book], weights=[4, 3, 1, 2, 1]
                )[0]()
            except (Refused, NotFound, InvalidField):
                continue
            self.done += 1

    def _pick(self) -> Appointment:
        return self._random.choice(list(Appointment.objects.order_by("id")))

    def _owner(self, appointment: Appointment) -> Actor:
        return Actor.user(appointment.owner_user_id, tenant_id=TENANT)

    def _decide(self) -> None:
        appointment = self._pick()
        verb = self._random.choice([Verb.CONFIRM, Verb.CONFIRM, Verb.DECLINE, Verb.CANCEL])
        by_client = verb is Verb.CANCEL and self._random.random() < 0.5
        actor = Actor.user(appointment.client_user_id) if by_client else self._owner(appointment)
        decisions.change(appointment.id, verb, actor=actor, as_of=NOON)

    def _reschedule(self) -> None:
        appointment = self._pick()
        free = AvailabilitySlot.objects.filter(status="Available", owner_user_id=appointment.owner_user_id)
        if slot := free.order_by("?").first():
            rescheduling.reschedule(appointment.id, slot.id, actor=self._owner(appointment), as_of=NOON)

    def _edit(self) -> None:
        appointment = self._pick()
        offsets = self._random.sample([5, 60, 90, 1_440, 10_080], 2)
        diary.edit(
            appointment.calendar_event_id, actor=self._owner(appointment), as_of=NOON, reminder_offsets_minutes=offsets
        )

    def _reassign(self) -> None:
        from_owner, to_owner = self._random.sample(self._owners, 2)
        assert from_owner.user_id
        assert to_owner.user_id
        reassignment.reassign(
            tenant_id=TENANT,
            from_owner_id=from_owner.user_id,
            to_owner_id=to_owner.user_id,
            actor=Actor.system(),
            as_of=NOON,
        )

    def _book(self) -> None:
        free = AvailabilitySlot.objects.filter(status="Available").order_by("?").first()
        if free:
            booking.book(free.id, actor=Actor.user(new_id()), as_of=NOON)


class Workers:
    """Cycle after cycle, until the people have gone; `failed` items must stay at none."""

    def __init__(self) -> None:
        self.people_have_gone = threading.Event()
        self.failed = 0
        self.expired = 0
        self.sent = 0

    def expire(self, *, chunk_size: int) -> None:
        job = TimeoutJob(chunk_size=chunk_size)
        while not self.people_have_gone.is_set():
            # Two at a time, so that the people have their share.
            result = job.cycle(as_of=NOON, limit=2, keep_going=always)
            self.failed += result.failed_count
            self.expired += result.expired_count

    def dispatch(self) -> None:
        while not self.people_have_gone.is_set():
            result = dispatch_due(limit=3)
            self.failed += result.failed_count
            self.sent += result.sent_count


@pytest.mark.parametrize("seed", [1, 2])
def test_no_deadlock_one_end_each_and_every_change_told_once(seed):
    owners = _people_and_their_appointments()
    story = Story()
    people = [Person(100 * seed + number, owners) for number in range(PEOPLE)]
    workers = Workers()
    at_work = threading.Barrier(PEOPLE, action=workers.people_have_gone.set)

    def live(person: Person) -> None:
        try:
            person.live()
        finally:
            at_work.wait(timeout=60)

    outcomes = together(
        *(partial(live, person) for person in people),
        partial(workers.expire, chunk_size=1),
        partial(workers.expire, chunk_size=10),
        workers.dispatch,
    )

    assert outcomes == [None] * len(outcomes)
    assert workers.failed == 0
    assert all(person.done for person in people)
    assert workers.expired > 0
    assert workers.sent > 0
    assert story.lies() == []
    assert violations() == []
