"""Who can be told, and what was told to whom, in the back office."""

import datetime
from typing import Any

from django.contrib import admin

from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.paging import BoundedPaginator
from backoffice.records import ListAdmin, RecordAdmin
from notifications.models import Delivery, Recipient, Status


@admin.register(Recipient)
class RecipientAdmin(ListAdmin):
    """The only personal data there is; fed by the platform, corrected by hand here."""

    show_facets = admin.ShowFacets.NEVER
    list_display = ("user_id", "email", "locale", "channels", "is_active")
    list_filter = ("is_active", "locale")
    search_fields = ("user_id__exact",)
    search_help_text = "The id of a person, whole"
    ordering = ("user_id",)
    sortable_by = ()
    actions = None
    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50

    def get_readonly_fields(self, request: Any, obj: Recipient | None = None) -> tuple[str, ...]:
        return ("user_id",) if obj else ()


def _due(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=Status.PENDING, next_attempt_at__lte=as_of).order_by("next_attempt_at", "id")


def _parked(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=Status.PARKED).order_by("-id")


def _without_channel(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(status=Status.NO_CHANNEL)


@admin.register(Delivery)
class DeliveryAdmin(RecordAdmin):
    list_display = (
        columns.short_id("id", "delivery"),
        columns.badge("status", "status"),
        columns.text("kind", "kind"),
        columns.text("channel", "channel"),
        columns.text("role", "role"),
        columns.short_id("recipient_user_id", "recipient"),
        columns.text("attempts", "attempts"),
        columns.instant("created_at", "recorded"),
        columns.text("error", "error"),
    )
    list_filter = (
        one_of(
            Question("parked", "Given up", _parked),
            Question("no-channel", "Without a channel", _without_channel),
            Question("due", "Due, the longest first", _due),
        ),
        "status",
        "kind",
    )
    ids = ("id", "subject_id", "recipient_user_id")
    fields = (
        "kind",
        "role",
        "recipient_user_id",
        "channel",
        "status",
        "attempts",
        "next_attempt_at",
        "error",
        "sent_at",
        "subject_id",
        "fact",
        "topic",
        "body",
        "message_id",
        "tenant_id",
        "correlation_id",
        "created_at",
        "updated_at",
    )
    readonly_fields = ("body",)
    search_help_text = "An id, whole: of a delivery, an appointment, an event or a recipient"

    def heading(self, record: Delivery, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (
            show.badge(record.status),
            record.kind,
            f"{record.channel or 'no channel'} to {record.role.replace('_', ' ')}",
            show.moment(record.created_at, as_of=as_of),
        )

    @admin.display(description="payload")
    def body(self, record: Delivery) -> Any:
        return show.document(record.payload)
