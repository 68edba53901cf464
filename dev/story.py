"""The demo's story: begun by the real use cases, ended by the real workers, verified by SQL and on Kafka.

What lies in its past is told with instants of the past: a request booked 24 hours less some seconds ago lapses in some
seconds, by the clock that the workers read.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from appointments import booking, decisions, rescheduling
from appointments.locks import Facts as Appointment
from appointments.matrix import Verb
from core import clock, sql
from core.actors import Actor
from core.ids import new_id
from dev.console import Received
from ops.demo_data import DAY, HOUR, DemoData, Owner
from pin_calendar import diary, publishing
from pin_calendar.events import Event
from pin_calendar.slots import Slot

LAPSES_IN = datetime.timedelta(seconds=12)
ZONE = "Europe/Moscow"

_LAPSED_TEXT = "Запись не подтверждена агентом в срок"
_SECOND = datetime.timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that the story tells, and what the database or Kafka says of it."""

    what: str
    told: str
    seen: str

    @property
    def is_so(self) -> bool:
        return self.told == self.seen


@dataclass
class Story:
    """One telling, by an agent of its own, so that tellings never meet: `begin`, wait until it `is_over`, `facts`."""

    people: DemoData
    say: Callable[[str], None]
    agent: Owner = field(init=False)
    unanswered: Appointment = field(init=False)
    near: Appointment = field(init=False)
    moved: Appointment = field(init=False)
    cancelled: Event = field(init=False)
    firing: Event = field(init=False)

    def begin(self) -> None:
        """Set the scene; from here on the workers act."""
        as_of = clock.now()
        lapses_at = as_of + LAPSES_IN
        clients = [Actor.user(user_id) for user_id in self.people.investors]
        self.agent = Owner(new_id(), self.people.agency_tenant_id, ZONE)
        far_slot, near_slot, soon_slot, later_slot = self._publish_slots(as_of=as_of, lapses_at=lapses_at)

        self.unanswered = booking.book(far_slot.id, actor=clients[0], as_of=lapses_at - DAY)
        self.say(f"Request 1, for a visit in 3 days, was booked 24 hours ago: appointment {self.unanswered.id}")
        self.near = booking.book(near_slot.id, actor=clients[1], as_of=as_of - 6 * HOUR)
        self.say(f"Request 2, for a visit in 2 hours, on a slot with 2 hours of lead time: appointment {self.near.id}")

        self.moved = booking.book(soon_slot.id, actor=clients[2], as_of=as_of - HOUR)
        decisions.change(self.moved.id, Verb.CONFIRM, actor=self.agent.actor, as_of=clock.now())
        rescheduling.reschedule(self.moved.id, later_slot.id, actor=self.agent.actor, as_of=clock.now())
        self.say(f"Request 3 was confirmed and moved by 2 days, just before a reminder: appointment {self.moved.id}")

        self.cancelled = self._note("Звонок застройщику", reminds_at=lapses_at)
        diary.cancel(self.cancelled.id, actor=self.agent.actor, as_of=clock.now())
        self.say(f"Event 1 was cancelled, just before its reminder: event {self.cancelled.id}")
        # Due after the reminders that must not fire: when it is sent, the dispatcher has passed them over.
        self.firing = self._note("Встреча в офисе", reminds_at=lapses_at + _SECOND)
        self.say(f"Event 2 has a reminder that will fire: event {self.firing.id}")
        self.say(f"Nobody answers: requests 1 and 2 lapse at {lapses_at:%H:%M:%S} UTC")

    def is_over(self) -> bool:
        """Whether the workers have done their part and the relay has sent all that tells of it."""
        [(pending, unsent_reminders, unsent_messages)] = sql.fetch(
            """
            SELECT (SELECT count(*) FROM appointments WHERE id = ANY(%s) AND status = 'Pending'),
                   (SELECT count(*) FROM event_reminders WHERE event_id = %s AND status = 'Pending'),
                   (SELECT count(*) FROM outbox_ready JOIN outbox_messages USING (id) WHERE key = ANY(%s))
            """,
            [[self.unanswered.id, self.near.id], self.firing.id, self._keys()],
        )
        return not (pending or unsent_reminders or unsent_messages)

    def facts(self, received: Sequence[Received]) -> list[Fact]:
        """Each told thing beside what is so; `received` is all that was read from Kafka, without repeats."""
        return [
            *_facts_of_lapsed("request 1", self.unanswered, "Available", "Released", received),
            Fact("request 1: slot can be booked again", "yes", _on_showcase(self.unanswered.slot_id)),
            Fact(
                "request 1: reminders",
                "60 Skipped event_cancelled, 1440 Skipped event_cancelled",
                _reminders(self.unanswered.calendar_event_id),
            ),
            *_facts_of_lapsed("request 2", self.near, "Expired", "Expired", received),
            Fact("request 2: slot can be booked again", "no", _on_showcase(self.near.slot_id)),
            Fact(
                "request 2: reminders",
                "60 Skipped event_cancelled, 1440 Skipped past",
                _reminders(self.near.calendar_event_id),
            ),
            Fact("request 3: moved, still agreed", "Confirmed, Booked, Scheduled, –", _state(self.moved)),
            Fact(
                "request 3: reminders moved along",
                "60 Pending on time, 1440 Pending on time, 1440 Skipped past",
                _reminders(self.moved.calendar_event_id),
            ),
            Fact(
                "request 3: messages on Kafka",
                "appointment-booked Pending, appointment-confirmed, appointment-rescheduled Confirmed",
                _told(received, self.moved.id, self.moved.calendar_event_id),
            ),
            Fact("event 1: reminder of the cancelled", "60 Skipped event_cancelled", _reminders(self.cancelled.id)),
            Fact(
                "event 1: messages on Kafka",
                "event-status-changed Cancelled OwnerRequest",
                _told(received, self.cancelled.id),
            ),
            Fact("event 2: reminder fired", "60 Sent", _reminders(self.firing.id)),
            Fact("event 2: messages on Kafka", "reminder-due 60", _told(received, self.firing.id)),
        ]

    def _keys(self) -> list[str]:
        appointments = (self.unanswered, self.near, self.moved)
        ids = [self.cancelled.id, self.firing.id, *(a.id for a in appointments)]
        return [str(id_) for id_ in [*ids, *(a.calendar_event_id for a in appointments)]]

    def _publish_slots(self, *, as_of: datetime.datetime, lapses_at: datetime.datetime) -> list[Slot]:
        """For request 1, for request 2 (bookable until it lapses), for request 3 before and after the move."""
        agent = self.agent
        starts = [agent.at(3, 11, as_of=as_of), lapses_at + 2 * HOUR, lapses_at + HOUR, agent.at(2, 11, as_of=as_of)]
        leads = [60, 120, 60, 60]
        drafts = [
            publishing.Draft(start_at, start_at + HOUR, ZONE, min_lead_time_minutes=lead)
            for start_at, lead in zip(starts, leads, strict=True)
        ]
        return publishing.publish(
            drafts, owner_user_id=agent.user_id, tenant_id=agent.tenant_id, actor=agent.actor, as_of=as_of - 2 * DAY
        )

    def _note(self, title: str, *, reminds_at: datetime.datetime) -> Event:
        """A Manual event of the agent with one reminder, an hour before its start."""
        start_at = reminds_at + HOUR
        draft = diary.Draft(title, start_at, start_at + HOUR, ZONE, reminder_offsets_minutes=[60])
        agent = self.agent
        return diary.create(
            draft, owner_user_id=agent.user_id, tenant_id=agent.tenant_id, actor=agent.actor, as_of=clock.now()
        )


def _facts_of_lapsed(
    name: str, appointment: Appointment, slot: str, outcome: str, received: Sequence[Received]
) -> list[Fact]:
    return [
        Fact(
            f"{name}: appointment, slot, event, reason",
            f"Expired, {slot}, Cancelled, {_LAPSED_TEXT}",
            _state(appointment),
        ),
        Fact(
            f"{name}: messages on Kafka",
            "appointment-booked Pending, "
            f"appointment-cancelled Expired {outcome}, event-status-changed Cancelled Expired",
            _told(received, appointment.id, appointment.calendar_event_id),
        ),
    ]


def _state(appointment: Appointment) -> str:
    [statuses] = sql.fetch(
        """
        SELECT appointment.status, slot.status, event.status, coalesce(nullif(event.cancel_reason, ''), '–')
        FROM appointments AS appointment
        JOIN availability_slots AS slot ON slot.id = appointment.slot_id
        JOIN calendar_events AS event ON event.id = appointment.calendar_event_id
        WHERE appointment.id = %s
        """,
        [appointment.id],
    )
    return ", ".join(statuses)


def _on_showcase(slot_id: UUID) -> str:
    [(count,)] = sql.fetch(
        """
        SELECT count(*) FROM availability_slots WHERE id = %s AND status = 'Available'
           AND %s <= start_at - make_interval(mins => min_lead_time_minutes)
        """,
        [slot_id, clock.now()],
    )
    return "yes" if count else "no"


def _reminders(event_id: UUID) -> str:
    """By offset: status and skip reason; of a Pending one, whether it is due its offset before the start."""
    rows = sql.fetch(
        """
        SELECT concat_ws(' ', offset_minutes, reminder.status, skip_reason, CASE WHEN reminder.status = 'Pending' THEN
               CASE WHEN due_at = start_at - make_interval(mins => offset_minutes) THEN 'on time' ELSE 'off' END END)
        FROM event_reminders AS reminder JOIN calendar_events AS event ON event.id = reminder.event_id
        WHERE event_id = %s ORDER BY offset_minutes, reminder.status
        """,
        [event_id],
    )
    return ", ".join(text for (text,) in rows)


def _told(received: Sequence[Received], *ids: UUID) -> str:
    keys = {str(id_) for id_ in ids}
    return ", ".join(sorted(message.summary for message in received if message.key in keys))
