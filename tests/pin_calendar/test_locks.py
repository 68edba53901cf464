"""Who locks events waits for those who change them, and has them in the order in which all lock them."""

import pytest
from django.db import transaction

from core.ids import new_id
from pin_calendar import events
from pin_calendar.models import CalendarEvent, EventOrigin
from tests.appointments.concurrently import blocked
from tests.factories import DAY, NOON, TENANT, EventFactory

pytestmark = pytest.mark.django_db(transaction=True)


def test_who_locks_an_event_waits_for_who_changes_it_and_has_it_as_it_is_then() -> None:
    event = EventFactory.create()

    with transaction.atomic():
        CalendarEvent.objects.filter(pk=event.pk).update(title="Другое")
        finish = blocked(lambda: events.lock(event.id))

    assert finish().title == "Другое"


def test_an_owners_deadlines_are_waited_for_and_locked_in_the_order_of_their_ids() -> None:
    owner, ids = new_id(), sorted(new_id() for _ in range(3))
    for days_ahead, event_id in enumerate(reversed(ids), start=1):
        EventFactory.create(
            id=event_id,
            owner_user_id=owner,
            origin=EventOrigin.CRM_DEADLINE,
            source_id=new_id(),
            start_at=NOON + days_ahead * DAY,
        )

    with transaction.atomic():
        CalendarEvent.objects.filter(pk=ids[1]).update(title="Другое")
        finish = blocked(lambda: events.lock_deadlines(tenant_id=TENANT, owner_user_id=owner, as_of=NOON))

    assert [event.id for event in finish()] == ids
