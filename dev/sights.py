"""What the demo's story looks at afterwards: the database, Kafka and the mailbox, each in a few words."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from appointments.locks import Facts as Appointment
from core import clock, sql
from crm.models import LeadFeedEntry
from dev.console import Received
from dev.mailbox import Mail
from notifications import wording
from notifications.models import Locale


def state(appointment: Appointment) -> str:
    """Its status, its slot's and its event's, and why the event was cancelled."""
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


def on_showcase(slot_id: UUID) -> str:
    """Whether the slot can be booked now: yes or no."""
    [(count,)] = sql.fetch(
        """
        SELECT count(*) FROM availability_slots WHERE id = %s AND status = 'Available'
           AND %s <= start_at - make_interval(mins => min_lead_time_minutes)
        """,
        [slot_id, clock.now()],
    )
    return "yes" if count else "no"


def reminders(event_id: UUID | None) -> str:
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


def told(received: Sequence[Received], *ids: UUID) -> str:
    """What the messages under these keys tell, sorted."""
    keys = {str(id_) for id_ in ids}
    return ", ".join(sorted(message.summary for message in received if message.key in keys))


def subjects(mails: Sequence[Mail], *, of: UUID, to: UUID) -> str:
    """Of the mails about an appointment or event to a person, sorted."""
    return "; ".join(sorted(mail.subject for mail in _mails(mails, of=of, to=to)))


def offered(mails: Sequence[Mail], *, of: UUID, to: UUID) -> str:
    """The times that mails about an appointment offer to a person instead."""
    lines = [line for mail in _mails(mails, of=of, to=to) for line in mail.text.splitlines()]
    return "; ".join(line.removeprefix("- ") for line in lines if line.startswith("- "))


def repeated(mails: Sequence[Mail]) -> str:
    """The Message-IDs that came more than once."""
    counts = Counter(mail.message_id for mail in mails)
    return ", ".join(message_id for message_id, count in counts.items() if count > 1) or "none"


def lead_feed(appointment_id: UUID) -> str:
    """Its lines in the client's lead, in the feed's order."""
    return "; ".join(LeadFeedEntry.objects.filter(appointment_id=appointment_id).values_list("text", flat=True))


def deadline(booking_id: UUID, *, zone: str) -> str:
    """The state that the CRM told last, and the event that follows it."""
    rows = sql.fetch(
        """
        SELECT deadline.state, event.origin || ' ' || event.status, event.start_at
        FROM crm_deadlines AS deadline JOIN calendar_events AS event ON event.id = deadline.event_id
        WHERE booking_id = %s
        """,
        [booking_id],
    )
    return ", ".join(
        f"{state}, {event}, {wording.short(start_at, zone=zone, locale=Locale.RU)}" for state, event, start_at in rows
    )


def event_of_deadline(booking_id: UUID) -> UUID | None:
    """None while there is none."""
    rows = sql.fetch("SELECT event_id FROM crm_deadlines WHERE booking_id = %s", [booking_id])
    return rows[0][0] if rows else None


def _mails(mails: Sequence[Mail], *, of: UUID, to: UUID) -> list[Mail]:
    rows = sql.fetch("SELECT id FROM deliveries WHERE subject_id = %s AND recipient_user_id = %s", [of, to])
    return [mail for mail in mails if any(mail.is_of(id_) for (id_,) in rows)]
