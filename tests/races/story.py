"""The outbox, read in order, must never contradict itself."""

from core import clock
from pin_calendar.models import CalendarEvent
from tests.appointments.state import told


class Story:
    """Follows events from the moment it is made: whose each is, when it starts, whether it is over."""

    def __init__(self) -> None:
        self._facts = {
            str(event.id): (str(event.owner_user_id), clock.iso(event.start_at))
            for event in CalendarEvent.objects.filter(status="Scheduled")
        }

    def lies(self) -> list[str]:
        """Reminders told to a former owner, with a former start, or of an event that was over, in order of ids.

        Whoever tells of an event holds its row until the commit, so the order of ids is the order of commits.
        """
        facts = dict(self._facts)
        lies = []
        for topic, body in told():
            event_id = body["eventId"]
            if topic in ("appointment-booked", "appointment-rescheduled"):
                facts[event_id] = (body["ownerUserId"], body["startAt"])
            elif topic == "appointment-reassigned":
                facts[event_id] = (body["ownerUserId"], facts[event_id][1])
            elif topic == "event-status-changed":
                del facts[event_id]
            elif topic == "reminder-due" and facts.get(event_id) != (body["ownerUserId"], body["startAt"]):
                lies.append(f"reminder {body['reminderId']} says {body}, the truth was {facts.get(event_id)}")
        return lies
