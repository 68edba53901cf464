"""Reminders in the back office: they follow their event, so there is nothing to be done with one."""

import datetime
from typing import Any

from django.contrib import admin

from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.records import RecordAdmin
from reminders.models import EventReminder, ReminderStatus


def _due(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=ReminderStatus.PENDING, due_at__lte=as_of).order_by("due_at", "id")


def _next(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=ReminderStatus.PENDING, due_at__gt=as_of).order_by("due_at", "id")


@admin.register(EventReminder)
class EventReminderAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "reminder"),
        columns.badge("status", "status"),
        columns.instant("due_at", "due"),
        columns.made("offset_minutes", "before", lambda _reminder, minutes: show.distance(minutes * 60)),
        columns.text("skip_reason", "skipped because"),
        columns.instant("sent_at", "sent"),
        columns.link("event_id", "event", to="pin_calendar.calendarevent"),
    )
    list_filter = (
        one_of(
            Question("due", "Due and not sent", _due),
            Question("next", "Next to be sent", _next),
        ),
        "status",
        "skip_reason",
    )
    ids = ("id", "event_id")
    search_help_text = "An id, whole: of a reminder or an event"

    def heading(self, record: EventReminder, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            show.badge(record.status),
            f"{show.distance(record.offset_minutes * 60)} before its event",
            show.moment(record.due_at, as_of=as_of),
        )
