"""What the CRM told, and what its leads are told, in the back office."""

import datetime
from typing import Any

from django.contrib import admin

from backoffice import columns, show
from backoffice.records import RecordAdmin
from crm.models import AssigneeChange, Deadline, LeadFeedEntry


@admin.register(Deadline)
class DeadlineAdmin(RecordAdmin):
    list_display = (
        columns.short_id("booking_id", "booking"),
        columns.badge("state", "state"),
        columns.text("revision", "revision"),
        columns.link("event_id", "event", to="pin_calendar.calendarevent"),
        columns.short_id("owner_user_id", "owner"),
        columns.instant("updated_at", "applied"),
    )
    list_filter = ("state",)
    ids = ("id", "event_id")
    search_help_text = "An id, whole: of a deadline or its event"

    def heading(self, record: Deadline, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        event = show.link("pin_calendar.calendarevent", record.event_id, "its event") if record.event_id else "no event"
        return (show.badge(record.state), event, show.moment(record.updated_at, as_of=as_of))


@admin.register(AssigneeChange)
class AssigneeChangeAdmin(RecordAdmin):
    list_display = (
        columns.text("revision", "revision"),
        columns.short_id("from_owner_user_id", "from owner"),
        columns.short_id("to_owner_user_id", "to owner"),
        columns.text("moved_appointments", "appointments"),
        columns.text("moved_events", "events"),
        columns.text("conflicts", "conflicts"),
        columns.instant("created_at", "applied"),
    )


@admin.register(LeadFeedEntry)
class LeadFeedEntryAdmin(RecordAdmin):
    list_display = (
        columns.instant("occurred_at", "happened"),
        columns.text("text", "line"),
        columns.short_id("client_user_id", "client"),
        columns.link("appointment_id", "appointment", to="appointments.appointment"),
        columns.short_id("tenant_id", "tenant"),
    )
    list_filter = ("event",)
    ordering = ("-id",)  # over that of the feed

    def heading(self, record: LeadFeedEntry, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            record.text,
            show.moment(record.occurred_at, as_of=as_of),
            show.link("appointments.appointment", record.appointment_id, "its appointment"),
        )
