"""The demo's story: begun by the real use cases, ended by the real workers, verified by SQL, on Kafka and in mails.

What lies in its past is told with instants of the past: a request booked 24 hours less some seconds ago lapses in some
seconds, by the clock that the workers read.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from appointments import booking, decisions, rescheduling
from appointments.locks import Facts as Appointment
from appointments.matrix import Verb
from contracts.crm import BookingDeadlineChanged, DeadlineState
from core import clock, sql
from core.actors import Actor
from core.ids import new_id
from dev import crm, sights
from dev.console import Received
from dev.mailbox import Mail
from notifications import wording
from notifications.models import Locale, Recipient
from ops.demo_data import DAY, HOUR, DemoData, Owner
from pin_calendar import diary, publishing
from pin_calendar.events import Event
from pin_calendar.slots import Slot

LAPSES_IN = datetime.timedelta(seconds=12)
ZONE = "Europe/Moscow"

_LAPSED_TEXT = "Запись не подтверждена агентом в срок"
_SECOND = datetime.timedelta(seconds=1)
# Requests 1 and 2 are told in two messages to two people each, request 3 in three to two, events 1 and 2 in one to one.
_DELIVERIES = 16
# A line for each booking, for each lapse and for the confirmation.
_FEED_LINES = 6


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
    slots: list[Slot] = field(init=False)
    unanswered: Appointment = field(init=False)
    near: Appointment = field(init=False)
    moved: Appointment = field(init=False)
    cancelled: Event = field(init=False)
    firing: Event = field(init=False)
    deadline: BookingDeadlineChanged = field(init=False)

    def __post_init__(self) -> None:
        self.agent = Owner(new_id(), self.people.agency_tenant_id, ZONE)

    def begin(self) -> None:
        """Set the scene; from here on the workers act."""
        as_of = clock.now()
        lapses_at = as_of + LAPSES_IN
        clients = [Actor.user(user_id) for user_id in self.people.investors]
        address = f"agent-{self.agent.user_id.hex[-4:]}@example.com"
        Recipient.objects.get_or_create(user_id=self.agent.user_id, defaults={"email": address, "locale": Locale.RU})
        self.slots = self._publish_slots(as_of=as_of, lapses_at=lapses_at)
        far_slot, near_slot, soon_slot, later_slot = self.slots

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

        self.deadline = self._tell_of_deadline(as_of=as_of)
        self.say(f"The CRM opened a deadline and moved it by a day: booking {self.deadline.booking_id}")
        self.say(f"Nobody answers: requests 1 and 2 lapse at {lapses_at:%H:%M:%S} UTC")

    def is_over(self) -> bool:
        """Whether the workers have done their part, and people and the CRM have heard of it."""
        [(pending, unsent_reminders, unsent_messages, settled_deliveries, feed_lines, revision)] = sql.fetch(
            """
            SELECT (SELECT count(*) FROM appointments WHERE id = ANY(%(lapsing)s) AND status = 'Pending'),
                   (SELECT count(*) FROM event_reminders WHERE event_id = %(firing)s AND status = 'Pending'),
                   (SELECT count(*) FROM outbox_ready JOIN outbox_messages USING (id) WHERE key = ANY(%(keys)s)),
                   (SELECT count(*) FROM deliveries WHERE subject_id = ANY(%(ids)s) AND status <> 'pending'),
                   (SELECT count(*) FROM lead_feed_entries WHERE appointment_id = ANY(%(ids)s)),
                   (SELECT max(revision) FROM crm_deadlines WHERE booking_id = %(booking)s)
            """,
            {
                "lapsing": [self.unanswered.id, self.near.id],
                "firing": self.firing.id,
                "keys": [str(id_) for id_ in self._ids()],
                "ids": self._ids(),
                "booking": self.deadline.booking_id,
            },
        )
        is_told = settled_deliveries >= _DELIVERIES and feed_lines >= _FEED_LINES and revision == self.deadline.revision
        return is_told and not (pending or unsent_reminders or unsent_messages)

    def facts(self, received: Sequence[Received], mails: Sequence[Mail]) -> list[Fact]:
        """Each told thing beside what is so; `received` is all that was read from Kafka, without repeats."""
        return [*self._facts_of_calendar(received), *self._facts_of_mails(mails), *self._facts_of_crm()]

    def _facts_of_calendar(self, received: Sequence[Received]) -> list[Fact]:
        return [
            *_facts_of_lapsed("request 1", self.unanswered, "Available", "Released", received),
            Fact("request 1: slot can be booked again", "yes", sights.on_showcase(self.unanswered.slot_id)),
            Fact(
                "request 1: reminders",
                "60 Skipped event_cancelled, 1440 Skipped event_cancelled",
                sights.reminders(self.unanswered.calendar_event_id),
            ),
            *_facts_of_lapsed("request 2", self.near, "Expired", "Expired", received),
            Fact("request 2: slot can be booked again", "no", sights.on_showcase(self.near.slot_id)),
            Fact(
                "request 2: reminders",
                "60 Skipped event_cancelled, 1440 Skipped past",
                sights.reminders(self.near.calendar_event_id),
            ),
            Fact("request 3: moved, still agreed", "Confirmed, Booked, Scheduled, –", sights.state(self.moved)),
            Fact(
                "request 3: reminders moved along",
                "60 Pending on time, 1440 Pending on time, 1440 Skipped past",
                sights.reminders(self.moved.calendar_event_id),
            ),
            Fact(
                "request 3: messages on Kafka",
                "appointment-booked Pending, appointment-confirmed, appointment-rescheduled Confirmed",
                sights.told(received, self.moved.id, self.moved.calendar_event_id),
            ),
            Fact(
                "event 1: reminder of the cancelled", "60 Skipped event_cancelled", sights.reminders(self.cancelled.id)
            ),
            Fact(
                "event 1: messages on Kafka",
                "event-status-changed Cancelled OwnerRequest",
                sights.told(received, self.cancelled.id),
            ),
            Fact("event 2: reminder fired", "60 Sent", sights.reminders(self.firing.id)),
            Fact("event 2: messages on Kafka", "reminder-due 60", sights.told(received, self.firing.id)),
        ]

    def _facts_of_mails(self, mails: Sequence[Mail]) -> list[Fact]:
        """Subjects in the order of the alphabet: mails of different messages come in any order."""
        agent, (first, second, third, *_) = self.agent.user_id, self.people.investors
        far, near, before, after = (_when(slot.start_at) for slot in self.slots)
        near_in_english = _when(self.slots[1].start_at, locale=Locale.EN)
        told = [
            ("request 1: mails to the investor", self.unanswered.id, first,
             f"Запись не состоялась: {far}; Запрос на встречу отправлен: {far}"),
            ("request 1: mails to the agent", self.unanswered.id, agent,
             f"Запись истекла без вашего решения: {far}; Новая запись ждёт вашего решения: {far}"),
            ("request 2: mails to the investor, who reads English", self.near.id, second,
             f"Your request has lapsed: {near_in_english}; Your request was sent: {near_in_english}"),
            ("request 2: mails to the agent", self.near.id, agent,
             f"Запись истекла без вашего решения: {near}; Новая запись ждёт вашего решения: {near}"),
            ("request 3: mails to the investor", self.moved.id, third,
             f"Встреча перенесена на {after}; Встреча подтверждена: {before}; Запрос на встречу отправлен: {before}"),
            ("event 1: mails to the agent", self.cancelled.id, agent,
             f"Событие отменено: {_when(self.cancelled.start_at)}"),
            ("event 2: mails to the agent", self.firing.id, agent,
             f"Напоминание: событие {_when(self.firing.start_at)}"),
        ]  # fmt: skip
        return [
            *(Fact(what, subjects, sights.subjects(mails, of=id_, to=who)) for what, id_, who, subjects in told),
            Fact(
                "request 1: the investor is offered the free slots of the agent",
                wording.when(self.slots[0].start_at, zone=ZONE, locale=Locale.RU),
                sights.offered(mails, of=self.unanswered.id, to=first),
            ),
            Fact("mails that came twice", "none", sights.repeated(mails)),
        ]

    def _facts_of_crm(self) -> list[Fact]:
        booked, deadline = "клиент записался на встречу", self.deadline
        lapsed = f"{booked}; запись истекла без решения агента"
        return [
            Fact("request 1: lead feed", lapsed, sights.lead_feed(self.unanswered.id)),
            Fact("request 2: lead feed", lapsed, sights.lead_feed(self.near.id)),
            Fact("request 3: lead feed", f"{booked}; агент подтвердил запись", sights.lead_feed(self.moved.id)),
            Fact(
                "CRM deadline: its event",
                f"Moved, CrmDeadline Scheduled, {_when(deadline.deadline_at)}",
                sights.deadline(deadline.booking_id, zone=ZONE),
            ),
            Fact(
                "CRM deadline: reminders moved along",
                "60 Pending on time, 1440 Pending on time",
                sights.reminders(sights.event_of_deadline(deadline.booking_id)),
            ),
        ]

    def _ids(self) -> list[UUID]:
        """What the messages of the telling are about."""
        appointments = (self.unanswered, self.near, self.moved)
        return [
            *(appointment.id for appointment in appointments),
            *(appointment.calendar_event_id for appointment in appointments),
            *(self.cancelled.id, self.firing.id),
        ]

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

    def _tell_of_deadline(self, *, as_of: datetime.datetime) -> BookingDeadlineChanged:
        """As the CRM: a deadline of the agent, opened and then moved by a day; returns what was told last."""
        opened = BookingDeadlineChanged(
            tenant_id=self.agent.tenant_id,
            booking_id=new_id(),
            owner_user_id=self.agent.user_id,
            client_user_id=self.people.investors[0],
            title="Устная бронь: внести предоплату",
            deadline_at=self.agent.at(4, 18, as_of=as_of),
            time_zone=ZONE,
            state=DeadlineState.OPEN,
            revision=1,
        )
        later = {"state": DeadlineState.MOVED, "deadline_at": opened.deadline_at + DAY, "revision": 2}
        moved = opened.model_copy(update=later)
        crm.tell(opened, moved, bootstrap=settings.ENV.kafka_bootstrap_servers)
        return moved


def _facts_of_lapsed(
    name: str, appointment: Appointment, slot: str, outcome: str, received: Sequence[Received]
) -> list[Fact]:
    return [
        Fact(
            f"{name}: appointment, slot, event, reason",
            f"Expired, {slot}, Cancelled, {_LAPSED_TEXT}",
            sights.state(appointment),
        ),
        Fact(
            f"{name}: messages on Kafka",
            "appointment-booked Pending, "
            f"appointment-cancelled Expired {outcome}, event-status-changed Cancelled Expired",
            sights.told(received, appointment.id, appointment.calendar_event_id),
        ),
    ]


def _when(instant: datetime.datetime, *, locale: str = Locale.RU) -> str:
    return wording.short(instant, zone=ZONE, locale=locale)
