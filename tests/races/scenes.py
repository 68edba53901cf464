"""What the racing hands meet, and what each of them can do."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from appointments import booking, decisions, reassignment, rescheduling
from appointments.lifecycle import Change
from appointments.locks import Facts
from appointments.matrix import Verb
from appointments.models import Appointment
from appointments.reassignment import Reassignment
from appointments.timeout import TimeoutJob, TimeoutResult
from core.actors import Actor
from core.ids import new_id
from pin_calendar import diary
from reminders.dispatch import DispatchJob, DispatchResult
from tests.factories import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    TENANT,
    SlotFactory,
    an_overdue_appointment,
    client_of,
    owner_of,
)
from tests.keep_going import always


def expire_overdue(*, limit: int = 200) -> TimeoutResult:
    return TimeoutJob().cycle(as_of=NOON, limit=limit, keep_going=always)


def dispatch_due(*, limit: int = 500) -> DispatchResult:
    job = DispatchJob(stale_after=datetime.timedelta(minutes=10), now=lambda: NOON)
    return job.cycle(as_of=NOON, limit=limit, keep_going=always)


@dataclass(frozen=True)
class Scene:
    """An appointment, a further slot of its owner, and a colleague. Its acts are at NOON, by whoever may."""

    appointment: Appointment
    further_slot_id: UUID
    colleague_id: UUID

    def confirm(self) -> Change:
        return self._decide(Verb.CONFIRM, owner_of(self.appointment))

    def decline(self) -> Change:
        return self._decide(Verb.DECLINE, owner_of(self.appointment))

    def cancel_by_client(self) -> Change:
        return self._decide(Verb.CANCEL, client_of(self.appointment))

    def cancel_by_owner(self) -> Change:
        return self._decide(Verb.CANCEL, owner_of(self.appointment))

    def complete(self) -> Change:
        return self._decide(Verb.COMPLETE, owner_of(self.appointment))

    def no_show(self) -> Change:
        return self._decide(Verb.NO_SHOW, owner_of(self.appointment))

    def reschedule(self) -> Change:
        return rescheduling.reschedule(
            self.appointment.id, self.further_slot_id, actor=client_of(self.appointment), as_of=NOON
        )

    def reassign(self) -> Reassignment:
        return reassignment.reassign(
            tenant_id=TENANT,
            from_owner_id=self.appointment.owner_user_id,
            to_owner_id=self.colleague_id,
            actor=Actor.system(),
            as_of=NOON,
        )

    def book(self) -> Facts:
        """Another client asks for the appointment's own slot."""
        return booking.book(self.appointment.slot_id, actor=Actor.user(new_id()), as_of=NOON)

    def book_further(self) -> Facts:
        """Another client asks for the owner's further slot."""
        return booking.book(self.further_slot_id, actor=Actor.user(new_id()), as_of=NOON)

    def edit(self) -> object:
        """The owner wants another reminder."""
        event_id, owner = self.appointment.calendar_event_id, owner_of(self.appointment)
        return diary.edit(event_id, actor=owner, as_of=NOON, reminder_offsets_minutes=[60, 30])

    def retitle(self) -> object:
        """Touches the event alone, none of its reminders."""
        return diary.edit(
            self.appointment.calendar_event_id, actor=owner_of(self.appointment), as_of=NOON, title="Showing"
        )

    def timeout(self) -> TimeoutResult:
        return expire_overdue()

    def dispatch(self) -> DispatchResult:
        return dispatch_due()

    def _decide(self, verb: Verb, actor: Actor) -> Change:
        return decisions.change(self.appointment.id, verb, actor=actor, as_of=NOON)

    @property
    def status(self) -> str:
        self.appointment.refresh_from_db()
        return self.appointment.status


def a_lapsing_request() -> Scene:
    """Overdue by a minute, its slot just past its lead time, one reminder due. A later slot would give it more time."""
    return _scene(start_at=NOON + HOUR - MINUTE, created_at=NOON - 2 * HOUR)


def an_overdue_request_for_tomorrow() -> Scene:
    """Overdue by a minute; its slot can still be booked."""
    return _scene(start_at=NOON + DAY)


def a_meeting_in_progress() -> Scene:
    """Confirmed, begun five minutes ago, and nobody has been reminded yet."""
    started_at = NOON - 5 * MINUTE
    return _scene(start_at=started_at, status="Confirmed", created_at=started_at - 2 * HOUR)


def _scene(**fields: Any) -> Scene:
    appointment = an_overdue_appointment(**fields)
    further = SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=NOON + 2 * DAY)
    return Scene(appointment, further.id, colleague_id=new_id())


SCENES: dict[str, Callable[[], Scene]] = {
    "lapsing": a_lapsing_request,
    "tomorrow": an_overdue_request_for_tomorrow,
    "in progress": a_meeting_in_progress,
}


def said(outcome: Any) -> str:
    """An outcome in a few words, as the tables of the tests have it."""
    match outcome:
        case Change():
            words = outcome.after.status
        case Facts():
            words = outcome.status
        case TimeoutResult(failed_count=0):
            words = f"expired {outcome.expired_count}, elsewhere {outcome.skipped_locked_count}"
        case DispatchResult(failed_count=0):
            words = f"sent {outcome.sent_count}, elsewhere {outcome.skipped_locked_count}"
        case Reassignment():
            words = f"moved {len(outcome.appointment_ids)}"
        case _:
            words = type(outcome).__name__
    return words
