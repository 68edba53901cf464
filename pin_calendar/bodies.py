"""Slots and events as the API writes and reads them."""

from typing import Any

from rest_framework import serializers

from api.bodies import Body
from api.fields import Day, Flag, Id, Instant, Text, TimeOfDay, Whole, Word
from api.paging import PageQuery
from pin_calendar import weekly
from pin_calendar.diary import MAX_OFFSETS
from pin_calendar.models import (
    DEFAULT_LEAD_TIME_MINUTES,
    DEFAULT_OFFSETS_MINUTES,
    MAX_TEXT,
    EventOrigin,
    EventStatus,
    SlotStatus,
)
from pin_calendar.publishing import MAX_LEAD_TIME_MINUTES
from reminders.models import MAX_OFFSET_MINUTES, ReminderStatus, SkipReason

_MAX_ZONE = 64


class SlotOut(Body):
    """A bookable window of an owner."""

    id = Id()
    tenant_id = Id()
    owner_user_id = Id()
    start_at = Instant()
    end_at = Instant()
    time_zone = Text()
    min_lead_time_minutes = Whole()
    auto_confirm = Flag()
    status = Word(SlotStatus.choices)
    version = Whole()
    created_at = Instant()
    updated_at = Instant()


class SlotsOut(Body):
    """Slots that came to be together."""

    items = SlotOut(many=True)


class SlotEdit(Body):
    """What can be changed of a slot while it is Available; any member may be left out."""

    start_at = Instant()
    end_at = Instant()
    time_zone = Text(max_length=_MAX_ZONE, help_text="IANA name, such as Europe/Moscow.")
    min_lead_time_minutes = Whole(min_value=0, max_value=MAX_LEAD_TIME_MINUTES)
    auto_confirm = Flag()


class SlotIn(SlotEdit):
    """A slot to publish; a tenant admin may name another owner than themselves."""

    owner_user_id = Id(required=False)
    min_lead_time_minutes = Whole(min_value=0, max_value=MAX_LEAD_TIME_MINUTES, default=DEFAULT_LEAD_TIME_MINUTES)
    auto_confirm = Flag(default=False)


class WindowIn(Body):
    """A slot on each of these weekdays at these times of the wall clock."""

    weekdays = serializers.ListField(
        child=Whole(min_value=1, max_value=7), min_length=1, max_length=7, help_text="1 is Monday, 7 is Sunday."
    )
    start_time = TimeOfDay()
    end_time = TimeOfDay(help_text="00:00 is midnight, the end of the day.")
    fold = Whole(
        min_value=0,
        max_value=1,
        required=False,
        help_text="Where clocks are put back and show a time twice: 0 the first, 1 the second.",
    )


class WeeklyIn(Body):
    """A weekly pattern over a range of dates, both included."""

    owner_user_id = Id(required=False)
    from_date = Day()
    to_date = Day(help_text=f"At most {weekly.MAX_DAYS - 1} days after fromDate.")
    time_zone = Text(max_length=_MAX_ZONE)
    windows = serializers.ListField(child=WindowIn(), min_length=1, max_length=50)
    min_lead_time_minutes = Whole(min_value=0, max_value=MAX_LEAD_TIME_MINUTES, default=DEFAULT_LEAD_TIME_MINUTES)
    auto_confirm = Flag(default=False)


class ShowcaseQuery(PageQuery):
    from_at = Instant(required=False)
    to_at = Instant(required=False)
    owner_id = Id(required=False)
    tenant_id = Id(required=False)

    WIRE_NAMES = {**PageQuery.WIRE_NAMES, "from_at": "from", "to_at": "to"}


class OwnSlotsQuery(PageQuery):
    from_at = Instant(required=False)
    to_at = Instant(required=False)
    owner_id = Id(required=False, help_text="For a tenant admin: of this owner only.")
    statuses = serializers.ListField(child=Word(SlotStatus.choices), required=False)

    WIRE_NAMES = {**PageQuery.WIRE_NAMES, "from_at": "from", "to_at": "to", "statuses": "status"}


class WarningOut(Body):
    """Something that the caller may not have meant; the change was made all the same."""

    code = Text()
    detail = Text()


class ReminderOut(Body):
    """One moment at which the event reminds."""

    id = Id()
    offset_minutes = Whole()
    due_at = Instant()
    status = Word(ReminderStatus.choices)
    sent_at = Instant(allow_null=True)
    skip_reason = Word(SkipReason.choices, allow_null=True)


class EventOut(Body):
    """What stands in an owner's calendar."""

    id = Id()
    tenant_id = Id()
    owner_user_id = Id()
    client_user_id = Id(allow_null=True)
    origin = Word(EventOrigin.choices)
    source_id = Id(allow_null=True)
    title = Text()
    start_at = Instant()
    end_at = Instant()
    time_zone = Text()
    reminder_offsets_minutes = serializers.ListField(child=Whole())
    status = Word(EventStatus.choices)
    cancel_reason = Text()
    version = Whole()
    created_at = Instant()
    updated_at = Instant()


class EventDetailOut(EventOut):
    """An event with its reminders, oldest moment first."""

    reminders = ReminderOut(many=True)


class EventChangedOut(EventOut):
    """An event after a change, with what the caller should know about it."""

    warnings = WarningOut(many=True)


class EventEdit(Body):
    """What can be changed of an event; any member may be left out."""

    title = Text(max_length=MAX_TEXT, allow_blank=True)
    start_at = Instant()
    end_at = Instant(help_text="A deadline has no length: its end is its start.")
    time_zone = Text(max_length=_MAX_ZONE)
    reminder_offsets_minutes = serializers.ListField(
        child=Whole(min_value=0, max_value=MAX_OFFSET_MINUTES), max_length=MAX_OFFSETS
    )


class EventIn(EventEdit):
    """An event of the owner's own; a tenant admin may name another owner than themselves."""

    owner_user_id = Id(required=False)
    reminder_offsets_minutes = serializers.ListField(
        child=Whole(min_value=0, max_value=MAX_OFFSET_MINUTES),
        max_length=MAX_OFFSETS,
        default=list(DEFAULT_OFFSETS_MINUTES),
    )


class ReasonIn(Body):
    """The person's own text; the other party of an appointment reads it. It is never published or logged."""

    reason = Text(max_length=MAX_TEXT, allow_blank=True, default="")


class EventsQuery(PageQuery):
    from_at = Instant(required=False)
    to_at = Instant(required=False)
    statuses = serializers.ListField(child=Word(EventStatus.choices), required=False)
    origins = serializers.ListField(child=Word(EventOrigin.choices), required=False)

    WIRE_NAMES = {**PageQuery.WIRE_NAMES, "from_at": "from", "to_at": "to", "statuses": "status", "origins": "origin"}


NO_REMINDER = {
    "code": "no_reminder_will_be_sent",
    "detail": "the event starts before any of its reminders would be due, so none will be sent",
}


def warnings(*, is_silent: bool) -> list[dict[str, Any]]:
    """For the answer of a change that (re)made an event's reminders."""
    return [NO_REMINDER] if is_silent else []
