"""What the database holds, as tests of the domain look at it."""

import json
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings

from audit.models import AuditLine
from core import sql
from outbox.models import OutboxMessage
from pin_calendar.models import CalendarEvent


def tables() -> list[str]:
    """The tables of our own applications, which are those at the root of the project."""
    ours = [config for config in apps.get_app_configs() if Path(config.path).parent == settings.BASE_DIR]
    return sorted(model._meta.db_table for config in ours for model in config.get_models())


def everything() -> list[tuple[str, str]]:
    """Every row of every table of ours: equal before and after exactly when nothing was changed."""
    rows = " UNION ALL ".join(f"SELECT '{table}', to_jsonb(t)::text FROM {table} AS t" for table in tables())
    return [(table, row) for table, row in sql.fetch(f"{rows} ORDER BY 1, 2")]


def told() -> list[tuple[str, dict[str, Any]]]:
    """The outbox, oldest first: the topic without its prefix and version, and the payload."""
    return [
        (topic.removeprefix("pin.calendar.").removesuffix(".v1"), json.loads(payload))
        for topic, payload in OutboxMessage.objects.order_by("id").values_list("topic", "payload")
    ]


def topics() -> list[str]:
    return [topic for topic, _ in told()]


def audited() -> set[tuple[str, str, str, str]]:
    """The audit log: aggregate, verb, from, to."""
    return set(AuditLine.objects.values_list("aggregate", "verb", "from_status", "to_status"))


def reminders_of(event: CalendarEvent) -> list[tuple[int, str, str | None]]:
    """Offset, status, skip reason; by offset, history first."""
    rows = event.reminders.values_list("offset_minutes", "status", "skip_reason")
    return sorted(rows, key=lambda row: (row[0], row[1] == "Pending", row[1]))
