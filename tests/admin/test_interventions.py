"""Whatever operators do by hand is confirmed, permitted, done by the use case, and recorded."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from appointments.models import Appointment
from audit.models import AuditLine
from backoffice import operators
from core import sql
from core.ids import new_id
from notifications.models import Delivery
from outbox import operations
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from tests.admin.pages import buttons, confirm, intervention_url, record_url, submit, text_of
from tests.admin.rows import a_conflict, a_delivery, a_feed, a_meeting_that_was, a_parked_message, a_slot, an_event
from tests.factories import DAY, HOUR, MINUTE, NOON, an_open_appointment

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Case:
    """What there is, the intervention, what its form is answered, and what is then true of the row."""

    make: Any
    name: str
    then: dict[str, Any]
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        return self.name.replace("-", "_")


CASES = [
    Case(an_open_appointment, "confirm", {"status": "Confirmed"}),
    Case(an_open_appointment, "decline", {"status": "Declined", "cancel_reason": "sold"}, {"reason": "sold"}),
    Case(an_open_appointment, "cancel", {"status": "Cancelled", "cancelled_by": "Owner"}, {"reason": ""}),
    Case(a_meeting_that_was, "complete", {"status": "Completed"}),
    Case(a_meeting_that_was, "no-show", {"status": "NoShow"}),
    Case(a_slot, "withdraw", {"status": "Withdrawn"}),
    Case(an_event, "complete", {"status": "Completed"}),
    Case(an_event, "cancel", {"status": "Cancelled", "cancel_reason": "ill"}, {"reason": "ill"}),
    Case(a_conflict, "resolve", {"resolved_at": NOON}),
    Case(a_feed, "revoke", {"revoked_at": NOON}),
    Case(a_delivery, "resend", {"status": "pending", "attempts": 0, "next_attempt_at": NOON}),
]


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.make.__name__}-{case.name}")


@each_case
def test_a_confirmed_intervention_is_done_told_and_recorded(operator: Client, olga: User, case: Case) -> None:
    record = case.make()

    told = confirm(operator, record, case.name, **case.answers)

    record.refresh_from_db()
    assert {column: getattr(record, column) for column in case.then} == case.then
    line = AuditLine.objects.get(aggregate_id=record.pk)
    assert (line.verb, line.actor_kind, line.occurred_at) == (case.verb, "Operator", NOON)
    assert line.actor_user_id == operators.audit_id(olga.pk)
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (olga.pk, str(record.pk))
    assert str(line.correlation_id) in entry.change_message
    assert str(record.pk) in told


@each_case
def test_asking_changes_nothing(operator: Client, case: Case) -> None:
    record = case.make()
    before = type(record).objects.filter(pk=record.pk).values().get()

    page = operator.get(intervention_url(record, case.name))

    assert page.status_code == 200
    assert "Leave it as it is" in text_of(page)
    assert type(record).objects.filter(pk=record.pk).values().get() == before
    assert not AuditLine.objects.exists()


@each_case
def test_who_may_only_look_is_refused(viewer: Client, case: Case) -> None:
    record = case.make()
    before = type(record).objects.filter(pk=record.pk).values().get()

    assert viewer.get(intervention_url(record, case.name)).status_code == 403
    assert viewer.post(intervention_url(record, case.name), {"seen": "1"}).status_code == 403
    assert buttons(viewer, record) == []
    assert type(record).objects.filter(pk=record.pk).values().get() == before
    assert not LogEntry.objects.exists()


def test_a_confirmation_needs_the_token_of_its_page(olga: User) -> None:
    record, browser = an_open_appointment(), Client(enforce_csrf_checks=True)
    browser.force_login(olga)

    assert browser.post(intervention_url(record, "confirm"), {"seen": "1"}).status_code == 403


@pytest.mark.parametrize(
    ("status", "start_at", "offered"),
    [
        ("Pending", NOON + DAY, ["Confirm", "Decline", "Cancel", "Reassign owner"]),
        ("Pending", NOON - 2 * HOUR, []),
        ("Confirmed", NOON + DAY, ["Cancel", "Reassign owner"]),
        ("Confirmed", NOON - 2 * HOUR, ["Complete", "No-show"]),
        ("Expired", NOON + DAY, []),
    ],
)
def test_the_matrix_decides_what_is_offered(operator: Client, status: str, start_at: Any, offered: list[str]) -> None:
    assert buttons(operator, an_open_appointment(status=status, start_at=start_at)) == offered


def test_what_has_changed_since_the_page_is_not_overwritten(operator: Client) -> None:
    record = an_open_appointment()
    url = intervention_url(record, "decline")
    seen = operator.get(url).context["form"].initial["seen"]
    Appointment.objects.filter(id=record.id).update(version=2)

    told = submit(operator, url, seen=seen, reason="")

    assert told == f"Nothing was changed: appointment {record.id} has version 2, not 1."
    assert Appointment.objects.get(id=record.id).status == "Pending"
    assert not LogEntry.objects.exists()


def test_a_feed_that_got_a_new_address_meanwhile_is_not_revoked(operator: Client) -> None:
    feed = a_feed()
    url = intervention_url(feed, "revoke")
    seen = operator.get(url).context["form"].initial["seen"]
    a_feed(user_id=feed.user_id, as_of=NOON + MINUTE)

    told = submit(operator, url, seen=seen)

    assert told == f"Nothing was changed: calendar feed {feed.id} has a new token since then."
    feed.refresh_from_db()
    assert feed.revoked_at is None


def test_a_delivery_that_was_tried_meanwhile_is_not_sent_again(operator: Client) -> None:
    delivery = a_delivery()
    url = intervention_url(delivery, "resend")
    seen = operator.get(url).context["form"].initial["seen"]
    Delivery.objects.update(updated_at=NOON + MINUTE)

    told = submit(operator, url, seen=seen)

    assert told == f"Nothing was changed: delivery {delivery.id} has changed since then."
    assert Delivery.objects.get().status == "parked"


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "resolve"], ids=lambda case: case.name)
def test_what_no_page_shows_as_seen_changes_nothing(operator: Client, case: Case) -> None:
    record = case.make()
    before = type(record).objects.filter(pk=record.pk).values().get()
    url, answers = intervention_url(record, case.name), case.answers

    page = operator.post(url, answers)
    told = [submit(operator, url, seen=seen, **answers) for seen in ("x", "9" * 100)]

    assert "without the version that was seen" in text_of(page)
    assert all(words.startswith("Nothing was changed: ") for words in told)
    assert type(record).objects.filter(pk=record.pk).values().get() == before


def test_a_second_click_changes_nothing_more(operator: Client) -> None:
    record = an_open_appointment()
    url = intervention_url(record, "confirm")
    seen = operator.get(url).context["form"].initial["seen"]

    submit(operator, url, seen=seen)
    told = submit(operator, url, seen=seen)

    assert "Nothing was changed" in told
    assert LogEntry.objects.count() == 1


def test_a_broken_state_is_told_and_left(operator: Client) -> None:
    record = an_open_appointment()
    AvailabilitySlot.objects.update(status="Available")

    told = confirm(operator, record, "decline", reason="")

    assert told == f"Nothing was changed: slot {record.slot_id} is Available, not Booked."
    assert Appointment.objects.get().status == "Pending"


@pytest.fixture
def impatience(transactional_db: Any) -> Iterator[None]:
    """A database connection that waits for no lock."""
    sql.execute("SET lock_timeout = '50ms'")
    yield
    sql.execute("RESET lock_timeout")


@pytest.mark.usefixtures("impatience")
def test_rows_in_other_hands_are_told_as_busy(operator: Client) -> None:
    record = an_open_appointment()
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT 1 FROM appointments FOR UPDATE")
        told = confirm(operator, record, "confirm")

    assert told.startswith("Nothing was changed: the database is busy")


def test_what_is_not_possible_any_more_is_not_asked_for(operator: Client) -> None:
    record = an_open_appointment(status="Expired")

    page = operator.get(intervention_url(record, "confirm"), follow=True)

    assert "Confirm is not possible any more." in text_of(page)
    assert page.redirect_chain == [(record_url(record), 302)]


def test_there_is_no_other_intervention(operator: Client) -> None:
    assert operator.get(intervention_url(an_open_appointment(), "expire")).status_code == 404


def test_reassigning_moves_what_is_open_or_says_why_not(operator: Client) -> None:
    first = an_open_appointment()
    new_owner = new_id()

    told = confirm(operator, first, "reassign", to_owner_id=str(new_owner))

    assert "1 appointments and 0 CRM deadlines" in told
    first.refresh_from_db()
    assert first.owner_user_id == new_owner
    assert AuditLine.objects.filter(verb="reassign", actor_kind="Operator").count() == 3
    a_slot(owner_user_id=(taken := new_id()), start_at=first.slot.start_at)
    assert "overlap live slots" in confirm(operator, first, "reassign", to_owner_id=str(taken))


@pytest.mark.parametrize(("make", "has_one"), [(an_open_appointment, True), (an_event, False)])
def test_a_usual_sentence_is_promised_only_where_there_is_one(operator: Client, make: Any, has_one: bool) -> None:
    page = text_of(operator.get(intervention_url(make(), "cancel")))
    assert ("usual sentence" in page) is has_one


def test_a_form_that_is_wrong_is_shown_again(operator: Client) -> None:
    record = an_open_appointment()

    page = operator.post(intervention_url(record, "reassign"), {"seen": "1", "to_owner_id": "nobody"})

    assert page.status_code == 200
    assert "Enter a valid UUID." in text_of(page)


def test_events_of_appointments_and_of_the_crm_are_not_ended_here(operator: Client) -> None:
    assert buttons(operator, an_open_appointment().calendar_event) == []
    assert buttons(operator, an_event(origin="CrmDeadline", source_id=new_id())) == []
    assert CalendarEvent.objects.filter(status="Scheduled").count() == 2


def test_a_parked_message_is_retried(operator: Client, olga: User) -> None:
    message = a_parked_message()

    told = confirm(operator, message, "retry")

    assert "at once" in told
    assert OutboxBlockedKey.objects.get().next_attempt_at == NOON
    line = AuditLine.objects.get(aggregate="Message")
    assert (line.aggregate_id, line.verb) == (message.message_id, "retry")
    assert line.actor_user_id == operators.audit_id(olga.pk)


def test_a_parked_message_is_skipped_after_its_copy(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    message, copies = a_parked_message(), []
    monkeypatch.setattr(operations, "_dead_letter", lambda message, *, reason: copies.append(message.id))

    told = confirm(operator, message, "skip")

    assert "is skipped" in told
    assert copies == [message.id]
    assert not OutboxParked.objects.filter(id=message.id).exists()
    assert AuditLine.objects.get(aggregate="Message").to_status == "Skipped"
    assert "Skipped" in text_of(operator.get(record_url(message)))


def test_another_message_than_the_one_seen_is_not_skipped(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    message = a_parked_message()
    monkeypatch.setattr(operations, "_dead_letter", lambda message, *, reason: None)
    OutboxParked.objects.filter(id=message.id).delete()

    told = submit(operator, intervention_url(message, "skip"), seen=str(message.id))

    assert "is blocked by message" in told
    assert OutboxParked.objects.count() == 1


def test_only_the_message_that_blocks_can_be_skipped(operator: Client) -> None:
    blocking = a_parked_message()
    behind = OutboxMessage.objects.get(id__gt=blocking.id, topic=blocking.topic)

    assert buttons(operator, blocking) == ["Retry now", "Skip"]
    assert buttons(operator, behind) == ["Retry now"]
