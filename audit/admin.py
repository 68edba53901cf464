"""The audit log in the back office."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from audit.models import AuditLine
from backoffice import columns, operators, show
from backoffice.records import RecordAdmin


def _who(line: AuditLine, kind: str) -> Any:
    if line.actor_user_id is None:
        return kind
    name = getattr(line, "operator_name", None)
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

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        page = super().changelist_view(request, extra_context)
        if isinstance(page, TemplateResponse) and page.context_data and "cl" in page.context_data:
            lines = page.context_data["cl"].result_list
            known = operators.names(line.actor_user_id for line in lines if line.actor_kind == "Operator")
            for line in lines:
                line.operator_name = known.get(line.actor_user_id)
        return page
