"""The CRM gives what one agent had open to another."""

import pytest
from django.db import transaction

from appointments.models import Appointment, ReassignmentConflict
from appointments.reassignment import Reassignment
from contracts.crm import AssigneeChanged
from core.errors import InvalidField
from core.ids import new_id
from crm import assignees
from crm.models import AssigneeChange
from outbox.models import OutboxMessage
from pin_calendar.models import CalendarEvent
from tests.factories import DAY, NOON, TENANT, SlotFactory, an_open_appointment

pytestmark = pytest.mark.django_db

A, B = new_id(), new_id()


def change(from_owner: object, to_owner: object, *, revision: int) -> Reassignment | None:
    message = AssigneeChanged.model_validate(
        {"tenant_id": TENANT, "from_owner_user_id": from_owner, "to_owner_user_id": to_owner, "revision": revision}
    )
    with transaction.atomic():
        return assignees.apply(message, as_of=NOON)


def owners() -> set[object]:
    return {
        *Appointment.objects.values_list("owner_user_id", flat=True),
        *CalendarEvent.objects.values_list("owner_user_id", flat=True),
    }


def test_there_and_back_leaves_one_open_event_with_its_first_owner() -> None:
    appointment = an_open_appointment(slot__owner_user_id=A)

    change(A, B, revision=1)
    assert owners() == {B}
    change(B, A, revision=2)

    assert owners() == {A}
    assert CalendarEvent.objects.filter(status="Scheduled").count() == 1
    assert appointment.calendar_event.reminders.filter(status="Pending").count() == 2
    assert OutboxMessage.objects.filter(topic="pin.calendar.appointment-reassigned.v1").count() == 2


def test_what_was_applied_or_is_older_than_what_was_does_nothing() -> None:
    an_open_appointment(slot__owner_user_id=A)
    change(A, B, revision=1)
    change(B, A, revision=2)

    assert change(A, B, revision=1) is None
    assert change(A, new_id(), revision=1) is None
    assert owners() == {A}


def test_a_late_first_change_does_not_undo_the_second() -> None:
    an_open_appointment(slot__owner_user_id=A)
    change(B, A, revision=2)
    assert change(A, B, revision=1) is None
    assert owners() == {A}


def test_an_older_change_between_others_is_still_applied() -> None:
    c, d = new_id(), new_id()
    an_open_appointment(slot__owner_user_id=A)
    change(c, d, revision=2)
    assert change(A, B, revision=1) is not None
    assert owners() == {B}


def test_conflicts_stay_are_recorded_and_do_not_hold_up_the_rest() -> None:
    blocked = an_open_appointment(slot__owner_user_id=A)
    free = an_open_appointment(slot__owner_user_id=A, start_at=NOON + 5 * DAY)
    SlotFactory.create(owner_user_id=B, start_at=blocked.slot.start_at)

    done = change(A, B, revision=1)

    assert done is not None
    assert done.conflicting_appointment_ids == (blocked.id,)
    assert done.appointment_ids == (free.id,)
    assert ReassignmentConflict.objects.get().appointment_id == blocked.id
    noted = AssigneeChange.objects.get()
    assert (noted.moved_appointments, noted.conflicts) == (1, 1)


def test_the_same_owner_twice_breaks_a_rule() -> None:
    with pytest.raises(InvalidField):
        change(A, A, revision=1)
