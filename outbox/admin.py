"""Messages in the back office: where each is, and the two things to be done with one that can't be published."""

import datetime
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from backoffice import columns, show
from backoffice.filters import Question, Rows, one_of
from backoffice.interventions import Intervention, Order
from backoffice.paging import COUNTED_AT_MOST
from backoffice.records import RecordAdmin
from contracts.calendar import PUBLISHED
from core.errors import Refused
from outbox import operations, states
from outbox.models import OutboxBlockedKey, OutboxMessage, OutboxParked, OutboxReady
from outbox.states import State
from workers.job import JobUnavailable

PREFIX = "pin.calendar."
_TOPICS = tuple(message.TOPIC for message in PUBLISHED)


class KafkaAway(Refused):
    """Before a message is skipped its copy must be on the dead-letter topic."""

    code = "kafka_away"


def _retry(message: OutboxMessage, order: Order) -> str:
    operations.retry(message.topic, message.key, actor=order.actor, by=order.by, as_of=order.as_of)
    return f"The relay will retry the key {message.key} of {message.topic} at once"


def _skip(message: OutboxMessage, order: Order) -> str:
    try:
        operations.skip(
            message.topic,
            message.key,
            actor=order.actor,
            by=order.by,
            as_of=order.as_of,
            seen_id=order.seen_version,
        )
    except JobUnavailable as error:
        raise KafkaAway("Kafka is away, so the copy for the dead-letter topic can't be written") from error
    return f"Message {message.message_id} is skipped; those behind it go out"


RETRY = Intervention(
    name="retry",
    label="Retry now",
    consequence="The relay tries the first parked message of this key at once, then those behind it, in order.",
    permission="outbox.retry_outboxmessage",
    carry_out=_retry,
    is_offered=lambda message, _as_of: message.state in (State.BLOCKING, State.PARKED),
    version_of=lambda message: str(message.id),
)
SKIP = Intervention(
    name="skip",
    label="Skip",
    consequence=(
        "This message is never published. A copy goes to the dead-letter topic of its topic, and those that wait "
        "behind it go out without it: their readers will miss what it tells."
    ),
    permission="outbox.skip_outboxmessage",
    carry_out=_skip,
    is_offered=lambda message, _as_of: message.state is State.BLOCKING,
    version_of=lambda message: str(message.id),
    is_grave=True,
)


def _blocking(rows: Rows, as_of: datetime.datetime) -> Rows:
    first = OutboxParked.objects.order_by("topic", "key", "id").distinct("topic", "key").values("id")
    return rows.filter(id__in=first).order_by("id")


def _parked(rows: Rows, as_of: datetime.datetime) -> Rows:
    return rows.filter(id__in=OutboxParked.objects.values("id")).order_by("id")


def _waiting(rows: Rows, as_of: datetime.datetime) -> Rows:
    first = OutboxReady.objects.order_by("id").values("id")[:COUNTED_AT_MOST]
    return rows.filter(id__in=first).order_by("id")


class OfTopic(admin.SimpleListFilter):
    title = "topic"
    parameter_name = "topic"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name.removeprefix(PREFIX)) for name in _TOPICS]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(topic=self.value()) if self.value() else queryset


@admin.register(OutboxMessage)
class OutboxMessageAdmin(RecordAdmin):
    list_display = (
        columns.made("id", "message", lambda _message, id_: id_),
        columns.made("id", "state", lambda message, _id: show.badge(message.state)),
        columns.made("topic", "topic", lambda _message, topic: topic.removeprefix(PREFIX)),
        columns.short_id("key", "key"),
        columns.instant("created_at", "written"),
        columns.short_id("correlation_id", "correlation"),
    )
    list_filter = (
        one_of(
            Question("blocking", "Can't be published", _blocking),
            Question("parked", "Parked: these and those behind them", _parked),
            Question("waiting", "Waiting for the relay, oldest first", _waiting),
        ),
        OfTopic,
    )
    ids = ("message_id",)
    search_help_text = "An id, whole: of a message, or its key (the appointment or event that it tells of)"
    interventions = (RETRY, SKIP)
    fields = (
        "its_state",
        "why_parked",
        "topic",
        "key",
        "body",
        "headers",
        "message_id",
        "dedup_key",
        "tenant_id",
        "correlation_id",
        "traceparent",
        "created_at",
    )
    readonly_fields = ("its_state", "why_parked", "body")

    def complete(self, records: Sequence[Any]) -> None:
        known = states.of_each(message.id for message in records)
        for message in records:
            message.state = known[message.id]

    def named_by(self, term: str) -> Q:
        return super().named_by(term) | Q(key=term)

    def heading(self, record: Any, *, as_of: datetime.datetime) -> tuple[Any, ...]:
        return (show.badge(record.state), record.topic, show.moment(record.created_at, as_of=as_of))

    @admin.display(description="state")
    def its_state(self, record: Any) -> Any:
        return show.badge(record.state)

    @admin.display(description="why it is parked")
    def why_parked(self, record: Any) -> Any:
        if record.state not in (State.BLOCKING, State.PARKED):
            return show.NOTHING
        blocked = OutboxBlockedKey.objects.filter(topic=record.topic, key=record.key).first()
        if blocked is None:
            return show.NOTHING
        return (
            f"{blocked.reason}: {blocked.error} ({blocked.attempt_count} attempts since "
            f"{blocked.blocked_at:%Y-%m-%d %H:%M:%S}, the next at {blocked.next_attempt_at:%H:%M:%S})"
        )

    @admin.display(description="payload")
    def body(self, record: OutboxMessage) -> Any:
        return show.document(record.payload)
