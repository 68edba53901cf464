"""An event follows its booking's deadline, whatever order and however often the CRM tells it."""

import datetime
import itertools
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from contracts.calendar import EventStatusChanged
from contracts.crm import BookingDeadlineChanged, DeadlineState
from core.errors import InvalidField
from core.ids import new_id
from crm import deadlines
from crm.deadlines import Applied
from crm.models import Deadline
from outbox.models import OutboxMessage
from pin_calendar.models import CalendarEvent
from reminders.models import EventReminder
from tests.factories import DAY, HOUR, NOON, TENANT

OPEN, MOVED, CLOSED, CANCELLED = DeadlineState
AGENT, OTHER_AGENT, CLIENT = new_id(), new_id(), new_id()


def a_message(state: DeadlineState, revision: int, **changes: Any) -> BookingDeadlineChanged:
    fields: dict[str, Any] = {
        "tenant_id": TENANT,
        "booking_id": UUID(int=7),
        "owner_user_id": AGENT,
        "client_user_id": CLIENT,
        "title": "Предоплата",
        "deadline_at": NOON + 3 * DAY,
        "time_zone": "Europe/Riga",
        "state": state,
        "revision": revision,
    }
    return BookingDeadlineChanged(**{**fields, **changes})


def apply(*messages: BookingDeadlineChanged) -> list[Applied]:
    applied = []
    for message in messages:
        with transaction.atomic():
            applied.append(deadlines.apply(message, as_of=NOON))
    return applied


def event() -> CalendarEvent:
    return CalendarEvent.objects.get()


def due() -> list[tuple[str, datetime.datetime]]:
    return sorted(EventReminder.objects.values_list("status", "due_at"))


@pytest.mark.django_db
class TestOneByOne:
    """What each message does."""

    def test_an_open_deadline_is_an_event_with_reminders(self) -> None:
        assert apply(a_message(OPEN, 1)) == [Applied.CREATED]

        made = event()
        assert (made.origin, made.source_id, made.status, made.title) == (
            "CrmDeadline",
            UUID(int=7),
            "Scheduled",
            "Предоплата",
        )
        assert (made.owner_user_id, made.client_user_id, made.time_zone) == (AGENT, CLIENT, "Europe/Riga")
        assert made.start_at == made.end_at == NOON + 3 * DAY
        assert due() == [("Pending", NOON + 2 * DAY), ("Pending", NOON + 3 * DAY - HOUR)]

    def test_a_move_moves_the_event_and_its_reminders(self) -> None:
        apply(a_message(OPEN, 1), a_message(MOVED, 2, deadline_at=NOON + 5 * DAY, title="Полная оплата"))

        moved = event()
        assert (moved.start_at, moved.end_at, moved.title, moved.version) == (
            NOON + 5 * DAY,
            NOON + 5 * DAY,
            "Полная оплата",
            2,
        )
        assert due() == [("Pending", NOON + 4 * DAY), ("Pending", NOON + 5 * DAY - HOUR)]

    def test_a_change_of_title_alone_touches_no_reminder(self) -> None:
        apply(a_message(OPEN, 1))
        before = set(EventReminder.objects.values_list("id", flat=True))
        apply(a_message(MOVED, 2, title="Полная оплата"))
        assert set(EventReminder.objects.values_list("id", flat=True)) == before

    def test_the_owners_own_offsets_survive_a_move(self) -> None:
        apply(a_message(OPEN, 1))
        CalendarEvent.objects.update(reminder_offsets_minutes=[30])
        apply(a_message(MOVED, 2, deadline_at=NOON + 5 * DAY))
        assert event().reminder_offsets_minutes == [30]

    @pytest.mark.parametrize(
        ("state", "applied", "status"),
        [(CLOSED, Applied.COMPLETED, "Completed"), (CANCELLED, Applied.CANCELLED, "Cancelled")],
    )
    def test_an_end_ends_the_event_and_is_told(self, state: DeadlineState, applied: Applied, status: str) -> None:
        assert apply(a_message(OPEN, 1), a_message(state, 2)) == [Applied.CREATED, applied]

        assert event().status == status
        assert {reminder for reminder, _ in due()} == {"Skipped"}
        told = EventStatusChanged.model_validate_json(OutboxMessage.objects.get().payload)
        assert (told.status, told.reason, told.origin) == (status, "Crm", "CrmDeadline")

    @pytest.mark.parametrize("state", [CLOSED, CANCELLED])
    def test_an_end_before_the_beginning_creates_nothing_and_is_remembered(self, state: DeadlineState) -> None:
        assert apply(a_message(state, 2), a_message(OPEN, 1)) == [Applied.NOTED, Applied.IGNORED]
        assert not CalendarEvent.objects.exists()
        assert Deadline.objects.get().state == state

    def test_reopening_makes_a_new_event(self) -> None:
        apply(a_message(OPEN, 1), a_message(CLOSED, 2), a_message(OPEN, 3))
        assert list(CalendarEvent.objects.order_by("id").values_list("status", flat=True)) == ["Completed", "Scheduled"]
        assert Deadline.objects.get().event == CalendarEvent.objects.get(status="Scheduled")

    def test_an_owner_by_reassignment_stays_until_the_crm_names_another(self) -> None:
        apply(a_message(OPEN, 1))
        CalendarEvent.objects.update(owner_user_id=OTHER_AGENT)

        apply(a_message(MOVED, 2))
        assert event().owner_user_id == OTHER_AGENT

        third = new_id()
        apply(a_message(MOVED, 3, owner_user_id=third))
        assert event().owner_user_id == third

    def test_bookings_of_two_tenants_with_one_id_are_two(self) -> None:
        apply(a_message(OPEN, 1), a_message(OPEN, 1, tenant_id=new_id()))
        assert CalendarEvent.objects.count() == 2

    @pytest.mark.parametrize(("field", "value"), [("time_zone", "Mars/Olympus"), ("title", "нуль\x00")])
    def test_what_breaks_a_rule_is_refused(self, field: str, value: str) -> None:
        with pytest.raises(InvalidField):
            apply(a_message(OPEN, 1, **{field: value}))
        assert not Deadline.objects.exists()


@dataclass(frozen=True)
class Seen:
    """What is the same whatever order the messages came in: all but how often it changed."""

    revision: int
    state: str
    scheduled: tuple[tuple[Any, ...], ...]
    pending: tuple[datetime.datetime, ...]


def seen() -> Seen:
    deadline = Deadline.objects.get()
    columns = ("owner_user_id", "client_user_id", "title", "start_at", "end_at", "time_zone")
    return Seen(
        deadline.revision,
        deadline.state,
        tuple(CalendarEvent.objects.filter(status="Scheduled").values_list(*columns)),
        tuple(EventReminder.objects.filter(status="Pending").order_by("due_at").values_list("due_at", flat=True)),
    )


states = st.sampled_from(DeadlineState)
one_change = st.fixed_dictionaries(
    {
        "state": states,
        "owner_user_id": st.sampled_from([AGENT, OTHER_AGENT]),
        "client_user_id": st.sampled_from([CLIENT, None]),
        "title": st.sampled_from(["Предоплата", "Полная оплата"]),
        "deadline_at": st.integers(-2, 5).map(lambda days: NOON + days * DAY),
    }
)


class TestAnyOrder(TestCase):
    """The newest revision decides, whatever came first."""

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(one_change, min_size=1, max_size=5), st.data())
    def test_any_order_and_any_redelivery_converge(self, changes: list[dict[str, Any]], data: st.DataObject) -> None:
        in_order = [a_message(revision=revision, **change) for revision, change in enumerate(changes, start=1)]
        with transaction.atomic():
            apply(*in_order)
            expected = seen()
            transaction.set_rollback(True)
        told = data.draw(st.permutations(in_order + data.draw(st.lists(st.sampled_from(in_order), max_size=4))))

        apply(*told)

        assert seen() == expected
        newest = in_order[-1]
        is_live = newest.state in (OPEN, MOVED)
        assert [row[3] for row in expected.scheduled] == ([newest.deadline_at] if is_live else [])


@pytest.mark.django_db
def test_every_order_of_one_life_converges() -> None:
    life = [
        a_message(OPEN, 1),
        a_message(MOVED, 2, deadline_at=NOON + 5 * DAY),
        a_message(CLOSED, 3),
        a_message(OPEN, 4, deadline_at=NOON + 6 * DAY),
    ]
    found = set()
    for order in itertools.permutations(life):
        with transaction.atomic():
            apply(*order)
            found.add(seen())
            transaction.set_rollback(True)
    assert len(found) == 1
    assert [row[3] for row in found.pop().scheduled] == [NOON + 6 * DAY]
