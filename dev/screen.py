"""What the demo shows: lines that go by and, on a terminal, a panel below them that keeps up with the database."""

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from core import clock, sql
from dev.story import Fact

_COUNTS = """
SELECT 'appointments', status, count(*) FROM appointments GROUP BY status
UNION ALL SELECT 'slots', status, count(*) FROM availability_slots GROUP BY status
UNION ALL SELECT 'events', status, count(*) FROM calendar_events GROUP BY status
UNION ALL SELECT 'reminders', concat_ws(' ', status, skip_reason), count(*) FROM event_reminders
          GROUP BY status, skip_reason
UNION ALL SELECT 'messages', 'written', count(*) FROM outbox_messages
UNION ALL SELECT 'messages', 'to be sent', count(*) FROM outbox_ready
UNION ALL SELECT 'mails', status, count(*) FROM deliveries GROUP BY status
UNION ALL SELECT 'lead feed', 'lines', count(*) FROM lead_feed_entries
ORDER BY 1, 2
"""
_ROUTINE_EVENTS = frozenset({"cycle started", "cycle completed", "batch selected"})


class Screen:
    """Everything is printed on `console`, also by the supervisor's threads; the panel is drawn by `refresh`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._links: list[str] = []
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def say(self, sentence: str) -> None:
        """A line of the story."""
        self.console.print(Text(f"▶ {clock.now():%H:%M:%S} {sentence}", style="bold"), soft_wrap=True)

    def pin(self, line: str) -> None:
        """Say it, and keep it in the panel."""
        self._links.append(line)
        self.say(line)

    def refresh(self) -> None:
        """Draw the panel anew; nothing off a terminal."""
        if self._live:
            self._live.update(self._panel(), refresh=True)

    def show_facts(self, facts: Sequence[Fact]) -> None:
        """The table fact → seen → ok; where it is not as told, also what was told."""
        table = Table("fact", "seen", "ok", title="What happened", title_justify="left")
        for fact in facts:
            if fact.is_so:
                table.add_row(fact.what, fact.seen, "yes")
            else:
                table.add_row(fact.what, f"{fact.seen or 'nothing'}\ntold: {fact.told}", "NO", style="bold red")
        self.console.print(table)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def _panel(self) -> Panel:
        grid = Table.grid(padding=(0, 2))
        counts: dict[str, list[str]] = {}
        for what, status, count in sql.fetch(_COUNTS):
            counts.setdefault(what, []).append(f"{status} {count}")
        for what, parts in counts.items():
            grid.add_row(Text(what, style="bold"), " · ".join(parts))
        links = [Text(line, style="dim") for line in self._links]
        return Panel(Group(grid, *links), title="Pin Calendar", subtitle="Ctrl-C stops everything", title_align="left")


def is_news(line: str) -> bool:
    """False for a worker's line that says only that a cycle has begun, or had nothing to do."""
    try:
        record = json.loads(line)
        if record["event"] not in _ROUTINE_EVENTS or record["level"] != "info":
            return True
    except (ValueError, TypeError, KeyError):
        return True
    return any(value for name, value in record.items() if name.endswith("Count") or name == "count")
