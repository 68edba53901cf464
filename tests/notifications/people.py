"""Who is told in the tests, and messages about them, on fixed instants."""

import datetime
from typing import Any
from uuid import UUID

from contracts.base import Message
from contracts.calendar import ReminderDue
from contracts.samples import EXAMPLES
from core import clock
from core.ids import new_id
from notifications.models import Recipient

AGENT = UUID("01956b3a-7c00-7a10-8001-00000000b001")
OTHER_AGENT = UUID("01956b3a-7c00-7a10-8001-00000000b002")
CLIENT = UUID("01956b3a-7c00-7a10-8001-00000000c001")
NOW = datetime.datetime(2026, 3, 4, 9, tzinfo=datetime.UTC)
"""Between the examples' messages and their appointments."""


def a_person(user_id: UUID, address: str, **fields: Any) -> Recipient:
    return Recipient.objects.create(user_id=user_id, email=address, **fields)


def the_usual_people() -> None:
    """Addresses for everybody whom the examples of the contracts name."""
    a_person(AGENT, "agent@example.test")
    a_person(OTHER_AGENT, "other@example.test")
    a_person(CLIENT, "client@example.test", locale="en")


def a_reminder_ahead() -> Message:
    """Of an event that is a day away, so that its people are told."""
    start_at = clock.now() + datetime.timedelta(days=1)
    reminder: Message = example(ReminderDue, reminder_id=new_id(), event_id=new_id(), start_at=start_at)
    return reminder


def example(contract: type[Message], **changes: Any) -> Any:
    """The contract's example, with other values for some fields."""
    return EXAMPLES[contract].model_copy(update=changes)
