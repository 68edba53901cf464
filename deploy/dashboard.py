"""`python -m deploy.dashboard [--check]`: writes deploy/grafana/calendar-overview.json from the table of panels."""

import argparse
import itertools
import json
import string
import sys
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as Graph
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode

PATH = Path(__file__).with_name("grafana") / "calendar-overview.json"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True)
class Panel:
    """A graph of queries by their legends; with `red_from`, a number that turns red from there on."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    red_from: float | None = None


def _quantiles(metric: str, *, by: str = "") -> dict[str, str]:
    """The 50th and the 99th percentile of a histogram."""
    legend = f" {{{{{by}}}}}" if by else ""
    labels = f"le, {by}" if by else "le"
    return {
        f"p{percent}{legend}": f"histogram_quantile(0.{percent}, sum by ({labels}) "
        f"(rate({metric}_bucket[$__rate_interval])))"
        for percent in (50, 99)
    }


def _rate(metric: str, *, by: str = "") -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))" if by else f"sum(rate({metric}[$__rate_interval]))"


def _since(metric: str) -> str:
    return f"time() - max({metric}_last_success_timestamp_seconds)"


_TIMEOUT, _DISPATCH, _OUTBOX = "calendar_appointment_timeout", "calendar_reminder_dispatch", "calendar_outbox"
_RELAY, _NOTIFICATIONS, _CRM = "calendar_outbox_relay", "calendar_notifications", "calendar_crm_sync"

ROWS: dict[str, list[Panel]] = {
    "Background jobs": [
        Panel("Timeout: since the last success", {"": _since(_TIMEOUT)}, "s", 240),
        Panel("Timeout: overdue requests", {"": f"max({_TIMEOUT}_backlog)"}, red_from=100),
        Panel("Timeout: oldest overdue request", {"": f"max({_TIMEOUT}_oldest_overdue_age_seconds)"}, "s", 300),
        Panel("Consumers: messages behind", {"": f"sum({_NOTIFICATIONS}_consumer_lag) + sum({_CRM}_consumer_lag)"}),
        Panel(
            "Left behind by a reassignment, undecided", {"": "max(calendar_reassignment_conflicts_open)"}, red_from=1
        ),
        Panel(
            "Reassignments that left appointments behind", {"": _rate(f"{_CRM}_reassignment_conflicts_total")}, "ops"
        ),
        Panel(
            "Timeout: expired by what became of the slot",
            {"{{slot_outcome}}": _rate(f"{_TIMEOUT}_items_total", by="slot_outcome")},
            "ops",
        ),
        Panel("Timeout: duration of a cycle", _quantiles(f"{_TIMEOUT}_cycle_duration_seconds"), "s"),
        Panel(
            "Timeout: errors, and items in another hand",
            {"errors": _rate(f"{_TIMEOUT}_errors_total"), "skipped": _rate(f"{_TIMEOUT}_skip_locked_total")},
            "ops",
        ),
        Panel(
            "Errors of the others",
            {
                "relay": _rate(f"{_RELAY}_errors_total"),
                "notifications": _rate(f"{_NOTIFICATIONS}_errors_total"),
                "crm-sync": _rate(f"{_CRM}_errors_total"),
            },
            "ops",
        ),
        Panel(
            "Consumers: messages",
            {
                "notifications {{outcome}}": _rate(f"{_NOTIFICATIONS}_messages_total", by="outcome"),
                "crm-sync {{outcome}}": _rate(f"{_CRM}_messages_total", by="outcome"),
            },
            "ops",
        ),
        Panel(
            "Consumers: put aside",
            {
                "notifications {{topic}} {{reason}}": _rate(f"{_NOTIFICATIONS}_dead_letters_total", by="topic, reason"),
                "crm-sync {{topic}} {{reason}}": _rate(f"{_CRM}_dead_letters_total", by="topic, reason"),
            },
            "ops",
        ),
        Panel(
            "Relay and consumers: since the last success",
            {"relay": _since(_RELAY), "notifications": _since(_NOTIFICATIONS), "crm-sync": _since(_CRM)},
            "s",
        ),
        Panel(
            "Relay and consumers: duration of a cycle",
            {
                f"{name} {legend}": query
                for name, prefix in {"relay": _RELAY, "notifications": _NOTIFICATIONS, "crm-sync": _CRM}.items()
                for legend, query in _quantiles(f"{prefix}_cycle_duration_seconds").items()
            },
            "s",
        ),
        Panel(
            "Cycles that ran out of their time",
            {
                "timeout": _rate(f"{_TIMEOUT}_overruns_total"),
                "dispatcher": _rate(f"{_DISPATCH}_overruns_total"),
                "relay": _rate(f"{_RELAY}_overruns_total"),
                "notifications": _rate(f"{_NOTIFICATIONS}_overruns_total"),
                "crm-sync": _rate(f"{_CRM}_overruns_total"),
            },
            "ops",
        ),
        Panel("Deadlines of the CRM", {"{{applied}}": _rate(f"{_CRM}_deadlines_total", by="applied")}, "ops"),
    ],
    "Outbox": [
        Panel("Oldest message not yet published", {"": f"max({_OUTBOX}_oldest_age_seconds)"}, "s", 60),
        Panel("Still to be published", {"": f"max({_OUTBOX}_ready)"}),
        Panel("Parked messages", {"": f"max({_OUTBOX}_parked)"}, red_from=1),
        Panel("Keys held back", {"": f"max({_OUTBOX}_blocked_keys)"}, red_from=1),
        Panel("Published", {"{{topic}}": _rate(f"{_OUTBOX}_published_total", by="topic")}, "ops"),
        Panel("From commit to acknowledgement", _quantiles(f"{_OUTBOX}_publish_latency_seconds"), "s"),
        Panel(
            "Refused, and outages",
            {"{{topic}} {{reason}}": _rate(f"{_OUTBOX}_publish_errors_total", by="topic, reason")},
            "ops",
        ),
        Panel(
            "Shards by relay, and takeovers",
            {
                "{{instance}}": f"sum by (instance) ({_OUTBOX}_shards_owned)",
                "takeovers": f"sum(increase({_OUTBOX}_takeovers_total[$__rate_interval]))",
            },
        ),
    ],
    "Reminders": [
        Panel("Since the last success", {"": _since(_DISPATCH)}, "s", 240),
        Panel("Oldest reminder due", {"": f"max({_DISPATCH}_backlog_oldest_age_seconds)"}, "s", 300),
        Panel("Deliveries still to be sent", {"": f"max({_NOTIFICATIONS}_deliveries_pending)"}),
        Panel("Deliveries given up", {"": f"max({_NOTIFICATIONS}_deliveries_parked)"}, red_from=1),
        Panel(
            "Sent and skipped",
            {
                "sent": _rate("calendar_reminders_sent_total"),
                "skipped: {{reason}}": _rate("calendar_reminders_skipped_total", by="reason"),
                "errors": _rate(f"{_DISPATCH}_errors_total"),
            },
            "ops",
        ),
        Panel("From due to sent", _quantiles(f"{_DISPATCH}_lag_seconds"), "s"),
        Panel("Duration of a run", _quantiles(f"{_DISPATCH}_cycle_duration_seconds"), "s"),
        Panel("From what happened to its mail", _quantiles(f"{_NOTIFICATIONS}_delivery_delay_seconds"), "s"),
        Panel(
            "Attempts to send, and channels found away",
            {
                "{{outcome}}": _rate(f"{_NOTIFICATIONS}_deliveries_total", by="outcome"),
                "away: {{channel}}": _rate(f"{_NOTIFICATIONS}_channel_outages_total", by="channel"),
            },
            "ops",
        ),
    ],
    "API": [
        Panel(
            "Requests by view",
            {"{{view}}": _rate("django_http_requests_total_by_view_transport_method_total", by="view")},
            "reqps",
        ),
        Panel(
            "Answers by status",
            {"{{status}}": _rate("django_http_responses_total_by_status_total", by="status")},
            "reqps",
        ),
        Panel("Time to answer", _quantiles("django_http_requests_latency_seconds_by_view_method"), "s"),
        Panel(
            "Slowest views",
            {
                "{{view}}": "topk(5, histogram_quantile(0.99, sum by (le, view) "
                "(rate(django_http_requests_latency_seconds_by_view_method_bucket[$__rate_interval]))))"
            },
            "s",
        ),
        Panel("Time of a statement", _quantiles("django_db_query_duration_seconds"), "s"),
        Panel("Connections opened", {"": _rate("django_db_new_connections_total")}, "ops"),
    ],
}


def _panel(panel: Panel, number: int) -> Graph | Stat:
    built: Graph | Stat
    if panel.red_from is None and list(panel.queries) != [""]:
        legend = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        built = Graph().legend(legend.show_legend(True)).fill_opacity(10).height(8).span(6).min(0)
    else:
        steps = [Threshold(value=None, color="green")]
        if panel.red_from is not None:
            steps.append(Threshold(value=panel.red_from, color="red"))
        built = Stat().thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)).height(4).span(6)
    built = built.id(number).title(panel.title).unit(panel.unit).datasource(_SOURCE)
    for letter, (legend_format, query) in zip(string.ascii_uppercase, panel.queries.items(), strict=False):
        built = built.with_target(Dataquery().expr(query).legend_format(legend_format).ref_id(letter))
    return built


def text() -> str:
    """The dashboard as the JSON that Grafana imports."""
    dashboard = (
        Dashboard("Calendar overview")
        .uid("calendar-overview")
        .tags(["pin-calendar"])
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    numbers = itertools.count(1)
    for title, panels in ROWS.items():
        dashboard = dashboard.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            dashboard = dashboard.with_panel(_panel(panel, next(numbers)))
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard.build()) + "\n"


def queries() -> set[str]:
    """Every query of the committed dashboard."""
    panels = json.loads(PATH.read_text())["panels"]
    return {target["expr"] for panel in panels for target in panel.get("targets", [])}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.dashboard", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file differs")
    is_check = parser.parse_args().check
    current = text()
    if PATH.is_file() and PATH.read_text() == current:
        return 0
    if not is_check:
        PATH.write_text(current)
    sys.stdout.write(
        f"{PATH.name} {'differs from deploy/dashboard.py: run make dashboard' if is_check else 'written'}\n"
    )
    return int(is_check)


if __name__ == "__main__":
    sys.exit(main())
