"""What the paths of the sweep find: made by the real use cases at instants of the past, told by ids."""

import datetime
import os
from typing import Any
from uuid import UUID

from appointments import booking, decisions, feeds, reassignment
from appointments.matrix import Verb
from appointments.models import CalendarFeed, ReassignmentConflict
from benchmarks.failpoints.reader import records_of
from benchmarks.soak.letterbox import Letterbox
from contracts.base import Contract
from contracts.calendar import AppointmentBooked, AppointmentCancelled, ReminderDue
from contracts.crm import AssigneeChanged, BookingDeadlineChanged, DeadlineState
from contracts.samples import EXAMPLES
from core import clock, sql
from core.actors import Actor
from core.ids import new_id
from crm.job import CrmSyncJob
from notifications import recording
from notifications.models import Delivery, Recipient, Status
from pin_calendar import diary, publishing
from pin_calendar.slots import Slot
from reminders.dispatch import DispatchJob
from tests import kafka_reader
from tests.factories import DAY, HOUR, MINUTE
from tests.kafka_writer import Writer
from workers.models import JobRun, Outcome, ProcessedMessage

TENANT = UUID("018f0000-0000-7000-8000-0000000000a1")
OWNER, COLLEAGUE, CLIENT = (UUID(f"018f0000-0000-7000-8000-0000000000b{n}") for n in (1, 2, 3))
ADMIN = Actor.tenant_admin(UUID("018f0000-0000-7000-8000-0000000000c1"), tenant_id=TENANT)
LETTERS = Letterbox()

Facts = dict[str, Any]


def nothing() -> Facts:
    return {}


def a_slot(*, starts_in: datetime.timedelta = 3 * DAY, owner: UUID = OWNER) -> Facts:
    return {"slot": _publish(starts_in=starts_in, owner=owner).id}


def a_pending_request(*, starts_in: datetime.timedelta = 3 * DAY, booked_ago: datetime.timedelta = HOUR) -> Facts:
    slot = _publish(starts_in=starts_in)
    made = booking.book(slot.id, actor=Actor.user(CLIENT), as_of=clock.now() - booked_ago)
    return {"appointment": made.id, "slot": slot.id}


def a_confirmed_request(*, starts_in: datetime.timedelta = 3 * DAY) -> Facts:
    facts = a_pending_request(starts_in=starts_in, booked_ago=20 * HOUR)
    decisions.change(facts["appointment"], Verb.CONFIRM, actor=ADMIN, as_of=clock.now() - 19 * HOUR)
    return facts


def a_confirmed_request_and_a_further_slot() -> Facts:
    return {**a_confirmed_request(), "further": _publish(starts_in=10 * DAY).id}


def a_meeting_that_has_begun() -> Facts:
    return a_confirmed_request(starts_in=-5 * MINUTE)


def two_overdue_requests() -> Facts:
    """Of one the slot can still be booked, the other lapsed with its lead time."""
    first = a_pending_request(booked_ago=25 * HOUR)
    a_pending_request(starts_in=30 * MINUTE, booked_ago=20 * HOUR)
    return first


def a_conflicting_handover() -> Facts:
    """Two requests, of which one overlaps a slot of the colleague who inherits them."""
    a_slot(owner=COLLEAGUE)
    a_pending_request(starts_in=5 * DAY)
    return a_pending_request()


def a_reassignment_conflict() -> Facts:
    a_conflicting_handover()
    reassignment.reassign(
        tenant_id=TENANT, from_owner_id=OWNER, to_owner_id=COLLEAGUE, actor=Actor.system(), as_of=clock.now()
    )
    return {"conflict": ReassignmentConflict.objects.get().id}


def an_event(*, starts_in: datetime.timedelta = DAY, offsets: tuple[int, ...] = (2_880, 60)) -> Facts:
    """Made a week ago, so that each of its reminders was ahead then."""
    start_at = clock.now() + starts_in
    draft = diary.Draft("Call", start_at, start_at + HOUR, "Europe/Riga", offsets)
    made = diary.create(draft, owner_user_id=OWNER, tenant_id=TENANT, actor=ADMIN, as_of=clock.now() - 7 * DAY)
    return {"event": made.id}


def due_reminders() -> Facts:
    """Two of an event ahead, two of one that is over."""
    an_event(starts_in=-2 * HOUR, offsets=(60, 30))
    return an_event(starts_in=HOUR, offsets=(1_440, 120))


def a_queue() -> Facts:
    """Messages of several keys, two of them of one key."""
    facts = due_reminders()
    now = clock.now()
    DispatchJob(stale_after=10 * MINUTE).cycle(as_of=now, limit=10, keep_going=lambda: True)
    a_pending_request()
    return facts


def a_queue_with_a_refused_message() -> Facts:
    """The first of two messages of one key is too large for Kafka."""
    facts = a_queue()
    sql.execute(
        "UPDATE outbox_messages SET payload = payload || repeat(' ', 1000000) WHERE id ="
        " (SELECT min(id) FROM outbox_messages WHERE key = %s)",
        [str(facts["event"])],
    )
    return facts


def a_blocked_key() -> Facts:
    """Two parked messages, as a relay leaves them; their next attempt is due."""
    facts = a_queue()
    key = str(facts["event"])
    [(topic,)] = sql.fetch("SELECT DISTINCT topic FROM outbox_messages WHERE key = %s", [key])
    sql.execute(
        """
        WITH held AS (DELETE FROM outbox_ready WHERE id IN (SELECT id FROM outbox_messages WHERE key = %(key)s)
                      RETURNING id, shard),
        parked AS (INSERT INTO outbox_parked (id, topic, key, parked_at) SELECT id, %(topic)s, %(key)s, now() FROM held)
        INSERT INTO outbox_blocked_keys
            (topic, key, shard, reason, error, attempt_count, blocked_at, next_attempt_at)
        SELECT DISTINCT %(topic)s, %(key)s, shard, 'MSG_SIZE_TOO_LARGE', '', 1, now(), now() FROM held
        """,
        {"key": key, "topic": topic},
    )
    return {"topic": topic, "key": key}


def a_feed() -> Facts:
    feeds.issue(actor=Actor.user(CLIENT, tenant_id=TENANT), shows_owned=True, as_of=clock.now())
    feed = CalendarFeed.objects.get()
    return {"feed": feed.id, "token_of": feed.token_of}


def a_parked_delivery() -> Facts:
    _people()
    reminder = _example(ReminderDue, reminder_id=new_id())
    [delivery, *_] = recording.record(reminder, message_id=new_id(), as_of=clock.now())
    Delivery.objects.update(status=Status.PARKED)
    return {"delivery": delivery.id}


def things_of_long_ago() -> Facts:
    """Past their retention: a published message, a run of a worker, a handled message, a delivery."""
    long_ago = clock.now() - 400 * DAY
    event = an_event(starts_in=-396 * DAY)["event"]
    diary.complete(event, actor=ADMIN, as_of=long_ago)
    sql.execute("DELETE FROM outbox_ready")
    JobRun.objects.create(
        id=new_id(),
        job="x",
        instance="x",
        as_of=long_ago,
        started_at=long_ago,
        duration_ms=1,
        outcome=Outcome.SUCCEEDED,
    )
    ProcessedMessage.objects.create(consumer="x", message_id=new_id(), processed_at=long_ago)
    a_parked_delivery()
    Delivery.objects.update(created_at=long_ago)
    return {}


def a_reminder_to_read() -> Facts:
    """For two people with addresses."""
    _people()
    return _to_read(_example(ReminderDue, reminder_id=new_id(), start_at=clock.now() + DAY))


def deadlines_to_read() -> Facts:
    """Opened, moved, and closed."""
    states = (DeadlineState.OPEN, DeadlineState.MOVED, DeadlineState.CLOSED)
    booking_id = new_id()
    return _to_read(
        *(
            BookingDeadlineChanged(
                tenant_id=TENANT,
                booking_id=booking_id,
                owner_user_id=OWNER,
                title="Payment",
                deadline_at=clock.now() + revision * DAY,
                time_zone="Europe/Moscow",
                state=state,
                revision=revision,
            )
            for revision, state in enumerate(states, start=1)
        ),
    )


def a_handover_to_read() -> Facts:
    a_conflicting_handover()
    change = AssigneeChanged(tenant_id=TENANT, from_owner_user_id=OWNER, to_owner_user_id=COLLEAGUE, revision=1)
    return _to_read(change)


def a_lapsed_request_on_kafka() -> Facts:
    """Booked and cancelled, told to a consumer group of its own that has read all before."""
    appointment = {"appointment_id": new_id(), "client_user_id": CLIENT}
    messages = _example(AppointmentBooked, **appointment), _example(AppointmentCancelled, **appointment)
    bootstrap, prefix = os.environ["KAFKA_BOOTSTRAP_SERVERS"], f"sweep-{new_id()}-"
    topics = {message.TOPIC for message in messages}
    kafka_reader.skip_history(bootstrap, topics, group=prefix + CrmSyncJob.group_name)
    Writer(bootstrap).tell(*messages)
    return {"prefix": prefix}


def _to_read(*messages: Contract) -> Facts:
    return {"records": records_of(*messages), "smtp": LETTERS.port}


def _example(contract: Any, **changes: Any) -> Any:
    return EXAMPLES[contract].model_copy(update=changes)


def _people() -> None:
    example = _example(ReminderDue)
    for user_id in (example.owner_user_id, example.client_user_id):
        Recipient.objects.create(user_id=user_id, email=f"{user_id}@example.com")


def _publish(*, starts_in: datetime.timedelta, owner: UUID = OWNER) -> Slot:
    start_at = clock.now() + starts_in
    draft = publishing.Draft(start_at, start_at + HOUR, "Europe/Moscow")
    as_of = min(clock.now(), start_at) - 2 * DAY
    [slot] = publishing.publish([draft], owner_user_id=owner, tenant_id=TENANT, actor=ADMIN, as_of=as_of)
    return slot
