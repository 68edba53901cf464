"""Appointments as the API writes and reads them."""

from rest_framework import serializers

from api.bodies import Body
from api.fields import Id, Instant, Text, Whole, Word
from api.paging import PageQuery
from appointments.models import AppointmentStatus, CancelledBy
from appointments.register import Order
from pin_calendar.bodies import WarningOut


class AppointmentOut(Body):
    """A client's request for a slot and what became of it; the times are its slot's."""

    id = Id()
    tenant_id = Id()
    slot_id = Id()
    calendar_event_id = Id()
    owner_user_id = Id()
    client_user_id = Id()
    status = Word(AppointmentStatus.choices)
    pending_expires_at = Instant(allow_null=True, help_text="When the request lapses; history once it is not Pending.")
    cancelled_by = Word(CancelledBy.choices, allow_null=True)
    cancel_reason = Text()
    start_at = Instant(source="slot.start_at")
    end_at = Instant(source="slot.end_at")
    time_zone = Text(source="slot.time_zone")
    version = Whole()
    created_at = Instant()
    updated_at = Instant()


class AppointmentMovedOut(AppointmentOut):
    """An appointment whose event's reminders were made anew, with what the caller should know about them."""

    warnings = WarningOut(many=True)


class RescheduleIn(Body):
    slot_id = Id(help_text="An Available slot of the same owner.")


class AppointmentsQuery(PageQuery):
    from_at = Instant(required=False)
    to_at = Instant(required=False)
    statuses = serializers.ListField(child=Word(AppointmentStatus.choices), required=False)
    sort = Word(
        [order.value for order in Order], default=Order.START.value, help_text="By deadline: Pending ones only."
    )

    WIRE_NAMES = {**PageQuery.WIRE_NAMES, "from_at": "from", "to_at": "to", "statuses": "status"}


class ReassignmentIn(Body):
    from_owner_id = Id()
    to_owner_id = Id()


class ReassignmentOut(Body):
    """What moved to the new owner."""

    appointment_ids = serializers.ListField(child=Id())
    event_ids = serializers.ListField(child=Id())


class FeedOut(Body):
    """The secret address of a calendar."""

    url = Text(help_text="For calendar programs. Told only now, and as secret as what stands in the calendar.")
    created_at = Instant()


class FeedRevokedOut(Body):
    revoked_at = Instant()
