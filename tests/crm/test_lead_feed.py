"""One line a fact for the client's lead, in the order of what happened."""

import datetime
import itertools

import pytest

from contracts.base import Message
from contracts.calendar import (
    AppointmentBooked,
    AppointmentCancelled,
    AppointmentCompleted,
    AppointmentConfirmed,
    AppointmentOutcome,
    CancelReason,
)
from contracts.samples import EXAMPLES
from crm import lead_feed
from crm.models import LeadFeedEntry
from tests.factories import NOON

pytestmark = pytest.mark.django_db


def an_example(contract: type[Message], *, version: int = 1, minute: int = 0, **changes: object) -> Message:
    occurred_at = NOON + datetime.timedelta(minutes=minute)
    update = {"aggregate_version": version, "occurred_at": occurred_at, **changes}
    message: Message = EXAMPLES[contract].model_copy(update=update)
    return message


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (an_example(AppointmentBooked), "клиент записался на встречу"),
        (an_example(AppointmentConfirmed), "агент подтвердил запись"),
        (an_example(AppointmentCancelled, reason=CancelReason.EXPIRED), "запись истекла без решения агента"),
        (an_example(AppointmentCancelled, reason=CancelReason.DECLINED), "агент отклонил запись"),
        (an_example(AppointmentCancelled, reason=CancelReason.CANCELLED_BY_CLIENT), "клиент отменил запись"),
        (an_example(AppointmentCancelled, reason=CancelReason.CANCELLED_BY_OWNER), "агент отменил запись"),
        (an_example(AppointmentCompleted, outcome=AppointmentOutcome.COMPLETED), "встреча состоялась"),
        (an_example(AppointmentCompleted, outcome=AppointmentOutcome.NO_SHOW), "клиент не пришёл на встречу"),
    ],
)
def test_each_fact_has_its_line(message: lead_feed.Told, text: str) -> None:
    lead_feed.append(message, as_of=NOON)
    lead_feed.append(message, as_of=NOON)

    entry = LeadFeedEntry.objects.get()
    assert entry.text == text
    assert (entry.client_user_id, entry.appointment_id) == (message.client_user_id, message.appointment_id)
    assert (entry.occurred_at, entry.aggregate_version) == (message.occurred_at, message.aggregate_version)


@pytest.mark.parametrize("confirmed_in", [1, 2], ids=["at once", "by the agent"])
def test_the_feed_is_in_the_order_of_what_happened_whatever_came_first(confirmed_in: int) -> None:
    life = [
        an_example(AppointmentBooked, version=1, minute=0),
        an_example(AppointmentConfirmed, version=confirmed_in, minute=0),
        an_example(AppointmentCancelled, version=3, minute=1, reason=CancelReason.CANCELLED_BY_CLIENT),
    ]
    for order in itertools.permutations(life):
        LeadFeedEntry.objects.all().delete()
        for message in order:
            lead_feed.append(message, as_of=NOON)  # type: ignore[arg-type]
        assert list(LeadFeedEntry.objects.values_list("event", flat=True)) == [
            "Booked",
            "Confirmed",
            "CancelledByClient",
        ]
