"""The back office where it needs everything: the stories on records' pages, the operations page, sending again."""

import datetime
from typing import Any, cast

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from appointments.admin import AppointmentAdmin
from appointments.models import Appointment
from audit.admin import AuditLineAdmin
from audit.models import Aggregate, AuditLine
from backoffice import show
from backoffice.interventions import Intervention, Order
from backoffice.records import RecordAdmin
from backoffice.site import Page, Site
from notifications import deliveries
from notifications.admin import DeliveryAdmin
from notifications.models import Delivery
from ops import operations, resending
from ops.story import Note, Step, Subject, tell
from pin_calendar.admin import AvailabilitySlotAdmin, CalendarEventAdmin
from pin_calendar.models import AvailabilitySlot, CalendarEvent
from workers.models import JobRun

site = cast(Site, admin.site)
site.add_page(Page("operations", "operations/", operations.page, label="Operations", permission=operations.PERMISSION))
site.add_page(Page("runbook", "runbooks/<slug:name>/", operations.runbook))


class StoryAdmin(RecordAdmin):
    """A record whose page tells its whole story."""

    change_form_template = "ops/record.html"

    def subject(self, record: Any, *, as_of: datetime.datetime) -> Subject:
        """Whose story it is."""
        raise NotImplementedError

    def panels(self, request: HttpRequest, record: Any, *, as_of: datetime.datetime) -> dict[str, Any]:
        steps = tell(self.subject(record, as_of=as_of))
        return {"story": [_shown(step, as_of=as_of) for step in steps]}


def _shown(step: Step, *, as_of: datetime.datetime) -> dict[str, Any]:
    return {
        "when": show.moment(step.at, as_of=as_of),
        "title": step.title[:1].upper() + step.title[1:],
        "badge": show.badge(step.badge) if step.badge else "",
        "who": step.who,
        "why": step.why,
        "run_url": reverse("admin:workers_jobrun_change", args=[step.run.pk]) if step.run else "",
        "notes": [_noted(note) for note in step.notes],
        "is_ahead": step.is_ahead,
        "is_late": step.is_late,
    }


def _noted(note: Note) -> dict[str, Any]:
    model, key = note.link or ("", None)
    return {
        "text": note.text,
        "badge": show.badge(note.badge) if note.badge else "",
        "url": reverse(f"admin:{model.replace('.', '_')}_change", args=[key]) if model else "",
        "fault": note.fault,
        "notes": [_noted(part) for part in note.notes],
    }


admin.site.unregister(Appointment)
admin.site.unregister(CalendarEvent)
admin.site.unregister(AvailabilitySlot)
admin.site.unregister(Delivery)
admin.site.unregister(AuditLine)


@admin.register(Appointment)
class AppointmentStoryAdmin(StoryAdmin, AppointmentAdmin):
    def subject(self, record: Appointment, *, as_of: datetime.datetime) -> Subject:
        return Subject(as_of, appointment=record, event=record.calendar_event)


@admin.register(CalendarEvent)
class CalendarEventStoryAdmin(StoryAdmin, CalendarEventAdmin):
    def subject(self, record: CalendarEvent, *, as_of: datetime.datetime) -> Subject:
        appointment = Appointment.objects.select_related("slot").filter(calendar_event=record).first()
        return Subject(as_of, appointment=appointment, event=record)


@admin.register(AvailabilitySlot)
class AvailabilitySlotStoryAdmin(StoryAdmin, AvailabilitySlotAdmin):
    def subject(self, record: AvailabilitySlot, *, as_of: datetime.datetime) -> Subject:
        return Subject(as_of, slot=record)

    def panels(self, request: HttpRequest, record: AvailabilitySlot, *, as_of: datetime.datetime) -> dict[str, Any]:
        held = Appointment.objects.filter(slot=record).order_by("-id")[:50]
        shown = [
            format_html("{} {}", show.link("appointments.appointment", one.id), show.badge(one.status)) for one in held
        ]
        return super().panels(request, record, as_of=as_of) | {"related": shown, "related_title": "Requests for it"}


def _resend(delivery: Delivery, order: Order) -> str:
    resending.resend(delivery, actor=order.actor, by=order.by, as_of=order.as_of, seen_version=order.seen)
    return f"Delivery {delivery.id} is due at once"


RESEND = Intervention(
    name="resend",
    label="Send again",
    consequence="run_notifications tries it at once, as a first attempt, with the address that is known now.",
    permission="notifications.change_delivery",
    carry_out=_resend,
    is_offered=lambda delivery, _as_of: deliveries.is_resendable(delivery),
    version_of=deliveries.version_of,
)


@admin.register(Delivery)
class DeliveryResendAdmin(DeliveryAdmin):
    interventions = (RESEND,)

    def heading(self, record: Delivery, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        is_appointments = Appointment.objects.filter(id=record.subject_id).exists()
        model = "appointments.appointment" if is_appointments else "pin_calendar.calendarevent"
        text = "its appointment" if is_appointments else "its event"
        return (*super().heading(record, as_of=as_of), show.link(model, record.subject_id, text))


# Whose page has the story of which line.
_PAGES = {
    Aggregate.APPOINTMENT: "appointments.appointment",
    Aggregate.SLOT: "pin_calendar.availabilityslot",
    Aggregate.EVENT: "pin_calendar.calendarevent",
    Aggregate.CONFLICT: "appointments.reassignmentconflict",
    Aggregate.DELIVERY: "notifications.delivery",
    Aggregate.FEED: "appointments.calendarfeed",
}


@admin.register(AuditLine)
class AuditLineLinksAdmin(AuditLineAdmin):
    def heading(self, record: AuditLine, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        parts = [record.verb.replace("_", " "), show.moment(record.occurred_at, as_of=as_of)]
        if model := _PAGES.get(Aggregate(record.aggregate)):
            parts.append(show.link(model, record.aggregate_id, f"its {record.aggregate.lower()}"))
        else:  # a message is known by another id than its page
            found = f"{reverse('admin:outbox_outboxmessage_changelist')}?q={record.aggregate_id}"
            parts.append(format_html('<a href="{}">its message</a>', found))
        if JobRun.objects.filter(id=record.correlation_id).exists():
            parts.append(show.link("workers.jobrun", record.correlation_id, "the run that did it"))
        return tuple(parts)
