"""The audit log in the back office."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.utils.html import format_html

from audit.models import AuditLine
from backoffice import columns, operators, show
from backoffice.records import RecordAdmin
from core.actors import ActorKind


def _who(line: AuditLine, kind: str) -> Any:
    if line.actor_user_id is None:
        return kind
    name: str | None = line.operator_name  # type: ignore[attr-defined]  # by `complete`
    return f"{kind} {name}" if name else format_html("{} {}", kind, show.short(line.actor_user_id))


@admin.register(AuditLine)
class AuditLineAdmin(RecordAdmin):
    list_display = (
        columns.instant("occurred_at", "when"),
        columns.made("actor_kind", "who", _who),
        columns.text("verb", "what"),
        columns.text("aggregate", "of"),
        columns.short_id("aggregate_id", "id"),
        columns.badge("from_status", "from"),
        columns.badge("to_status", "to"),
        columns.short_id("correlation_id", "correlation"),
    )
    list_filter = ("aggregate", "actor_kind")
    ids = ("id", "aggregate_id", "correlation_id")
    search_help_text = "An id, whole: of what was changed, or a correlation id (such as that of a worker's run)"

    def complete(self, records: Sequence[Any]) -> None:
        known = operators.names(line.actor_user_id for line in records if line.actor_kind == ActorKind.OPERATOR)
        for line in records:
            line.operator_name = known.get(line.actor_user_id)
