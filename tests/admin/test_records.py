"""Everything can be looked at, nothing can be typed over, and a long table costs no more than a short one."""

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from appointments.matrix import Verb
from appointments.models import Appointment, ReassignmentConflict
from audit.models import AuditLine
from backoffice import operators
from backoffice.paging import BoundedPaginator
from backoffice.records import RecordAdmin
from core.ids import new_id
from notifications.models import Delivery, Recipient
from outbox.models import OutboxMessage, OutboxParked, OutboxReady
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from reminders.models import EventReminder
from tests.admin.pages import list_url, record_url, text_of
from tests.admin.rows import (
    a_conflict,
    a_deadline,
    a_delivery,
    a_feed,
    a_lead_feed_entry,
    a_run,
    a_slot,
    an_assignee_change,
    an_ended_conflict,
    an_event,
)
from tests.factories import DAY, HOUR, MINUTE, NOON, an_open_appointment, an_overdue_appointment
from tests.ops import lives
from workers.models import JobRun, ProcessedMessage

pytestmark = pytest.mark.django_db

RECORDS = [model for model, its in admin.site._registry.items() if isinstance(its, RecordAdmin)]
each_record = pytest.mark.parametrize("model", RECORDS, ids=lambda model: model._meta.label)


def one_of_each() -> None:
    """At least a row in every table."""
    lives.decide(lives.a_request(), Verb.DECLINE)
    a_conflict()
    a_delivery()
    a_run(expiredCount=2)
    an_assignee_change()
    a_lead_feed_entry()
    a_deadline()
    a_feed()
    ProcessedMessage.objects.create(consumer="notifications", message_id=new_id(), processed_at=NOON)


def test_every_table_of_ours_can_be_looked_at() -> None:
    ours = {"appointments", "pin_calendar", "reminders", "outbox", "notifications", "crm", "workers", "audit"}
    hidden = {"OutboxReady", "OutboxParked", "OutboxBlockedKey"}  # shown as the states of messages
    shown = {model.__name__ for model in admin.site._registry if model._meta.app_label in ours}
    tables = {model.__name__ for model in [*Appointment._meta.apps.get_models()] if model._meta.app_label in ours}

    assert shown == tables - hidden


@each_record
def test_a_viewer_sees_the_list_and_each_record(viewer: Client, model: type[models.Model]) -> None:
    one_of_each()
    record = model._default_manager.first()
    assert record is not None

    listed, page = viewer.get(list_url(model)), viewer.get(record_url(record))

    assert (listed.status_code, page.status_code) == (200, 200)
    assert record_url(record) in listed.content.decode()
    assert 'name="_save"' not in page.content.decode()


@each_record
def test_nobody_can_type_over_add_or_delete(admin_client: Client, model: type[models.Model]) -> None:
    one_of_each()
    record = model._default_manager.first()
    assert record is not None
    before = list(model._default_manager.values())

    attempts = [
        admin_client.post(record_url(record), {"status": "Completed"}),
        admin_client.post(record_url(record).replace("/change/", "/delete/"), {"post": "yes"}),
        admin_client.post(f"{list_url(model)}add/", {}),
    ]

    assert [attempt.status_code for attempt in attempts] == [403, 403, 403]
    assert list(model._default_manager.values()) == before


@each_record
def test_a_stranger_to_the_groups_sees_nothing(model: type[models.Model], django_user_model: Any) -> None:
    browser = Client()
    browser.force_login(django_user_model.objects.create_user("nobody", is_staff=True))

    assert browser.get(list_url(model)).status_code == 403


@each_record
def test_a_longer_list_asks_no_more_of_the_database(viewer: Client, model: type[models.Model]) -> None:
    one_of_each()
    viewer.get(list_url(model))
    with CaptureQueriesContext(connection) as few:
        viewer.get(list_url(model))
    for _ in range(3):
        one_of_each()

    with CaptureQueriesContext(connection) as more:
        viewer.get(list_url(model))

    assert len(more) == len(few) <= 9


@pytest.mark.parametrize(
    ("model", "question", "answer", "others"),
    [
        (Appointment, "overdue", an_overdue_appointment, [an_open_appointment]),
        (
            Appointment,
            "lapsing",
            lambda: an_open_appointment(pending_expires_at=NOON + 59 * MINUTE),
            [an_open_appointment, an_overdue_appointment],
        ),
        (
            Appointment,
            "no-outcome",
            lambda: an_open_appointment(status="Confirmed", start_at=NOON - DAY),
            [lambda: an_open_appointment(status="Confirmed"), an_open_appointment],
        ),
        (
            Appointment,
            "conflict",
            lambda: a_conflict().appointment,
            [an_open_appointment, an_ended_conflict, lambda: a_conflict(resolved_at=NOON)],
        ),
        (ReassignmentConflict, "open", a_conflict, [an_ended_conflict, lambda: a_conflict(resolved_at=NOON)]),
        (AvailabilitySlot, "ahead", a_slot, [lambda: a_slot(start_at=NOON - DAY)]),
        (CalendarEvent, "over", lambda: an_event(start_at=NOON - DAY), [an_event]),
        (Delivery, "parked", a_delivery, [lambda: a_delivery("no_channel")]),
        (Delivery, "no-channel", lambda: a_delivery("no_channel"), [a_delivery]),
        (Delivery, "due", lambda: a_delivery("pending"), [a_delivery]),
        (JobRun, "failed-any", lambda: a_run(outcome="Failed"), [a_run]),
        (JobRun, "failed-any", lambda: a_run(failedCount=1), [lambda: a_run(failedCount=0)]),
        (JobRun, "failed-any", lambda: a_run("outbox-relay", failed=1), [lambda: a_run("outbox-relay", failed=0)]),
    ],
)
def test_a_question_lists_its_answers_and_no_others(
    viewer: Client, model: type[models.Model], question: str, answer: Any, others: list[Any]
) -> None:
    for other in others:
        other()
    wanted = answer()

    rows = viewer.get(list_url(model, f"?question={question}")).context["cl"].result_list

    assert [row.pk for row in rows] == [wanted.pk]


def test_reminders_are_asked_for_by_their_time(viewer: Client) -> None:
    late, ahead = (
        an_open_appointment(start_at=NOON + 23 * HOUR),
        an_open_appointment(start_at=NOON + 3 * DAY),
    )
    EventReminder.objects.filter(event=late.calendar_event, offset_minutes=1_440).update(
        status="Pending", skip_reason=None
    )

    def asked(question: str) -> list[tuple[Any, int]]:
        rows = viewer.get(list_url(EventReminder, f"?question={question}")).context["cl"].result_list
        return [(row.event_id, row.offset_minutes) for row in rows]

    assert asked("next") == [
        (late.calendar_event_id, 60),
        (ahead.calendar_event_id, 1_440),
        (ahead.calendar_event_id, 60),
    ]
    assert (late.calendar_event_id, 1_440) in asked("due")


def test_messages_are_asked_for_by_where_they_wait(viewer: Client) -> None:
    waiting, parked, behind, published = (lives.a_request() for _ in range(4))
    ids = {request.id: OutboxMessage.objects.get(key=str(request.id)).id for request in (waiting, parked, behind)}
    OutboxReady.objects.exclude(id=ids[waiting.id]).delete()
    for request in (parked, behind):
        OutboxParked.objects.create(
            id=ids[request.id], topic="pin.calendar.appointment-booked.v1", key=str(parked.id), parked_at=NOON
        )

    def asked(question: str) -> list[int]:
        rows = viewer.get(list_url(OutboxMessage, f"?question={question}"))
        return [row.id for row in rows.context["cl"].result_list]

    assert asked("waiting") == [ids[waiting.id]]
    assert asked("parked") == [ids[parked.id], ids[behind.id]]
    assert asked("blocking") == [ids[parked.id]]
    assert len(asked("")) == 4
    assert str(published.id)[:8] in text_of(viewer.get(list_url(OutboxMessage)))


@pytest.mark.parametrize("column", ["id", "owner_user_id", "client_user_id", "slot_id", "calendar_event_id"])
def test_an_appointment_is_found_by_any_of_its_ids(viewer: Client, column: str) -> None:
    wanted, _other = an_open_appointment(), an_open_appointment()

    rows = viewer.get(list_url(Appointment, f"?q=%20{getattr(wanted, column)}%20")).context["cl"].result_list

    assert [row.pk for row in rows] == [wanted.pk]


def test_what_is_no_id_finds_nothing_and_breaks_nothing(viewer: Client) -> None:
    an_open_appointment()

    page = viewer.get(list_url(Appointment, "?q=Иванов'--"))

    assert "0 appointments" in text_of(page)


def test_a_message_is_found_by_what_it_tells_of(viewer: Client) -> None:
    request, _other = lives.a_request(), lives.a_request()

    rows = viewer.get(list_url(OutboxMessage, f"?q={request.id}")).context["cl"].result_list

    assert [row.key for row in rows] == [str(request.id)]


def test_a_card_of_a_list_has_names_that_css_understands(admin_client: Client) -> None:
    page = admin_client.get(list_url(Recipient)).content.decode()

    assert '.field-email::before { content: "E\\2d mail"; }' in page


def test_rows_are_counted_up_to_a_bound(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "counted_at_most", 3)
    for _ in range(5):
        a_slot()

    assert "3 or more availability slots" in text_of(viewer.get(list_url(AvailabilitySlot)))


def test_the_audit_log_names_operators(operator: Client, olga: Any) -> None:
    appointment = an_open_appointment()
    operator.post(f"{record_url(appointment).replace('/change/', '/do/confirm/')}", {"seen": "1"})

    page = text_of(operator.get(list_url(AuditLine)))

    assert "Operator olga" in page


def test_an_operator_is_found_by_the_id_in_the_audit_log(admin_client: Client, olga: Any) -> None:
    users = "/admin/auth/user/"

    found = admin_client.get(f"{users}?q={operators.audit_id(olga.pk)}").context["cl"].result_list

    assert [user.username for user in found] == ["olga"]
    assert str(operators.audit_id(olga.pk)) in text_of(admin_client.get(f"{users}{olga.pk}/change/"))


def test_an_operator_is_never_deleted(admin_client: Client, olga: Any) -> None:
    assert admin_client.post(f"/admin/auth/user/{olga.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_operator_corrects_an_address_and_a_viewer_does_not_see_it(operator: Client, viewer: Client) -> None:
    recipient = Recipient.objects.create(user_id=new_id(), email="old@example.org")

    answer = operator.post(
        record_url(recipient), {"email": "new@example.org", "locale": "ru", "channels": "email", "is_active": "on"}
    )

    assert answer.status_code == 302
    assert Recipient.objects.get().email == "new@example.org"
    assert viewer.get(list_url(Recipient)).status_code == 403
