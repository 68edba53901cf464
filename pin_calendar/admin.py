"""Slots and events in the back office; an appointment's event changes only with its appointment (INV-CAL-3)."""

import datetime
from typing import Any

from django.contrib import admin

from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.interventions import Intervention, Order, WithReason
from backoffice.records import RecordAdmin
from pin_calendar import diary, publishing
from pin_calendar.models import AvailabilitySlot, CalendarEvent, EventOrigin, EventStatus, SlotStatus


def _withdraw(slot: AvailabilitySlot, order: Order) -> str:
    publishing.withdraw(slot.id, actor=order.actor, as_of=order.as_of, seen_version=order.seen_version)
    return f"Slot {slot.id} is {SlotStatus.WITHDRAWN}"


WITHDRAW = Intervention(
    name="withdraw",
    label="Withdraw",
    consequence="The slot leaves the showcase for good, as if its owner had withdrawn it.",
    permission="pin_calendar.withdraw_availabilityslot",
    carry_out=_withdraw,
    is_offered=lambda slot, _as_of: slot.status == SlotStatus.AVAILABLE,
    is_grave=True,
)


def _ahead(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=SlotStatus.AVAILABLE, start_at__gte=as_of).order_by("start_at", "id")


@admin.register(AvailabilitySlot)
class AvailabilitySlotAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "slot"),
        columns.badge("status", "status"),
        columns.instant("start_at", "starts"),
        columns.text("time_zone", "time zone"),
        columns.text("min_lead_time_minutes", "lead (min)"),
        columns.made("auto_confirm", "confirms by itself", lambda _slot, does: "yes" if does else "no"),
        columns.short_id("owner_user_id", "owner"),
    )
    list_filter = (one_of(Question("ahead", "Available and ahead, soonest first", _ahead)), "status")
    ids = ("id", "owner_user_id")
    search_help_text = "An id, whole: of a slot or an owner"
    interventions = (WITHDRAW,)

    def heading(self, record: AvailabilitySlot, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (show.badge(record.status), show.moment(record.start_at, as_of=as_of), record.time_zone)


def _complete(event: CalendarEvent, order: Order) -> str:
    diary.complete(event.id, actor=order.actor, as_of=order.as_of, seen_version=order.seen_version)
    return f"Event {event.id} is {EventStatus.COMPLETED}"


def _cancel(event: CalendarEvent, order: Order) -> str:
    diary.cancel(
        event.id,
        actor=order.actor,
        as_of=order.as_of,
        reason=order.values["reason"],
        seen_version=order.seen_version,
    )
    return f"Event {event.id} is {EventStatus.CANCELLED}"


def _is_open_manual(event: CalendarEvent, _as_of: datetime.datetime) -> bool:
    return event.origin == EventOrigin.MANUAL and event.status == EventStatus.SCHEDULED


COMPLETE = Intervention(
    name="complete",
    label="Complete",
    consequence="The event is completed as if its owner had said so. Its reminders that are still ahead are skipped.",
    permission="pin_calendar.finish_calendarevent",
    carry_out=_complete,
    is_offered=_is_open_manual,
)
CANCEL = Intervention(
    name="cancel",
    label="Cancel",
    consequence="The event is cancelled in its owner's name. Its reminders that are still ahead are skipped.",
    permission="pin_calendar.finish_calendarevent",
    carry_out=_cancel,
    is_offered=_is_open_manual,
    form=WithReason,
    is_grave=True,
)


def _over(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=EventStatus.SCHEDULED, end_at__lt=as_of)


@admin.register(CalendarEvent)
class CalendarEventAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "event"),
        columns.badge("status", "status"),
        columns.text("origin", "origin"),
        columns.instant("start_at", "starts"),
        columns.text("time_zone", "time zone"),
        columns.short_id("owner_user_id", "owner"),
        columns.short_id("client_user_id", "client"),
    )
    list_filter = (one_of(Question("over", "Over, and still Scheduled", _over)), "status", "origin")
    ids = ("id", "owner_user_id", "client_user_id")
    search_help_text = "An id, whole: of an event, an owner or a client"
    interventions = (COMPLETE, CANCEL)

    def heading(self, record: CalendarEvent, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            show.badge(record.status),
            record.origin,
            show.moment(record.start_at, as_of=as_of),
            record.time_zone,
        )
