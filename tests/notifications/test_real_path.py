"""From a change to its mails over the real path: outbox, relay, broker, consumer, SMTP (AC7)."""

import datetime
import io
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from appointments import booking
from appointments.timeout import TimeoutJob
from core import clock
from core.actors import Actor
from core.ids import new_id
from crm.models import LeadFeedEntry
from notifications.models import Delivery
from outbox.relay import RelayJob
from pin_calendar import diary
from pin_calendar.diary import Draft
from reminders.dispatch import DispatchJob
from tests.factories import DAY, HOUR, MINUTE, TENANT, SlotFactory
from tests.invariants import violations
from tests.keep_going import always
from tests.notifications.mail_server import MailServer
from tests.notifications.people import a_person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("group_prefix")]


@pytest.fixture
def relay() -> Iterator[RelayJob]:
    with closing(RelayJob()) as job:
        yield job


@pytest.fixture
def today() -> datetime.datetime:
    """An instant before now, at which a day's meeting is still ahead for another two days."""
    return clock.now() - HOUR


def a_booking(today: datetime.datetime) -> tuple[UUID, UUID]:
    """A Pending appointment in three days; the ids of its agent and of its client, both with addresses."""
    slot = SlotFactory.create(start_at=today + 3 * DAY, time_zone="Europe/Riga")
    agent, client = slot.owner_user_id, new_id()
    a_person(agent, "agent@example.test")
    a_person(client, "client@example.test", locale="en")
    booking.book(slot.id, actor=Actor.user(client), as_of=today)
    return agent, client


def dispatch(as_of: datetime.datetime) -> None:
    DispatchJob(stale_after=10 * MINUTE, now=lambda: as_of).cycle(as_of=as_of, limit=100, keep_going=always)


def tell(relay: RelayJob, as_of: datetime.datetime, *commands: str) -> list[dict[str, Any]]:
    """Publish all, then run each consumer once; what the consumers said."""
    relay.cycle(as_of=as_of, limit=1_000, keep_going=always)
    said = []
    for command in commands or ("run_notifications",):
        out = io.StringIO()
        call_command(command, "--once", stdout=out)
        said.append(json.loads(out.getvalue()))
    return said


def test_ac7_a_due_reminder_reaches_agent_and_investor_once_each(
    mails: MailServer, relay: RelayJob, today: datetime.datetime
) -> None:
    a_booking(today)
    tell(relay, today)
    mails.mails.clear()

    dispatch(today + 2 * DAY + MINUTE)
    tell(relay, today)

    assert sorted(mail["To"] for mail in mails.mails) == ["agent@example.test", "client@example.test"]
    assert all(
        delivery.kind == "AppointmentReminder" for delivery in Delivery.objects.exclude(kind="AppointmentBooked")
    )
    (told,) = mails.to("client@example.test")
    assert "Reminder" in told["Subject"]
    assert tell(relay, today)[0]["sentCount"] == 0
    assert violations() == []


def test_ac7_a_due_manual_event_reaches_its_owner_once(
    mails: MailServer, relay: RelayJob, today: datetime.datetime
) -> None:
    owner = new_id()
    a_person(owner, "owner@example.test")
    start_at = today + 3 * DAY
    draft = Draft(title="Сделка", start_at=start_at, end_at=start_at + HOUR, time_zone="Europe/Riga")
    diary.create(draft, owner_user_id=owner, tenant_id=TENANT, actor=Actor.user(owner, tenant_id=TENANT), as_of=today)

    dispatch(today + 2 * DAY + MINUTE)
    tell(relay, today)

    (mail,) = mails.mails
    assert mail["To"] == "owner@example.test"
    assert Delivery.objects.get().kind == "CalendarReminder"
    assert "Сделка" not in mail.as_string()


def test_a_lapse_is_told_to_both_with_the_way_to_another_slot_and_to_the_lead(
    mails: MailServer, relay: RelayJob, today: datetime.datetime
) -> None:
    agent, client = a_booking(today)
    SlotFactory.create(owner_user_id=agent, start_at=today + 5 * DAY, time_zone="Europe/Riga")
    tell(relay, today)
    mails.mails.clear()

    TimeoutJob().cycle(as_of=today + 25 * HOUR, limit=10, keep_going=always)
    said = tell(relay, today, "run_notifications", "run_crm_sync")

    (to_client,), (to_agent,) = mails.to("client@example.test"), mails.to("agent@example.test")
    plain = to_client.get_body(("plain",))
    assert plain is not None
    text = plain.get_content()
    assert "The agent did not confirm the request; please choose another slot." in text
    assert f"/slots?ownerId={agent}" in text
    assert text.count("(Europe/Riga, UTC+0") == 3
    (cancel,) = to_client.iter_attachments()
    assert cancel.get_param("method") == "CANCEL"
    assert "истекла" in to_agent["Subject"]
    assert len(mails.mails) == 2
    assert said[0]["failedCount"] == said[1]["failedCount"] == 0
    feed = LeadFeedEntry.objects.filter(client_user_id=client).values_list("text", flat=True)
    assert list(feed) == ["клиент записался на встречу", "запись истекла без решения агента"]
    assert violations() == []
