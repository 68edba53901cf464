"""Each finding is about the right limit, and its runbook has the section that it names."""

import datetime
import re
from pathlib import Path

import pytest
from django.test import Client

from ops import charts, diagnosis, runbooks
from ops.charts import Bar
from ops.diagnosis import Facts
from ops.workforce import WORKERS, Record, Unheard
from outbox.operations import ShardStatus
from tests.admin.pages import text_of
from tests.factories import MINUTE, NOON

ROOT = Path(__file__).resolve().parents[2]


def shards(*, owned: int = 8, age: float = 0.0) -> list[ShardStatus]:
    return [
        ShardStatus(
            shard=shard,
            ready=int(age > 0),
            oldest_age_seconds=age,
            owner_pid=1 if shard < owned else None,
            blocked_keys=0,
            parked=0,
        )
        for shard in range(8)
    ]


def facts(
    *,
    silent_for: datetime.timedelta = MINUTE,
    queue: list[ShardStatus] | None = None,
    unheard: float = 0.0,
    failed: int = 0,
    **values: float,
) -> Facts:
    return Facts(
        as_of=NOON,
        hours=6,
        values=values,
        records={worker.name: Record(last_success_at=NOON - silent_for, failed=failed) for worker in WORKERS},
        shards=queue or shards(),
        unheard={"notifications": Unheard(3, unheard), "crm-sync": Unheard(0, 0.0)},
    )


TROUBLES = [
    facts(silent_for=241 * datetime.timedelta(seconds=1)),
    facts(calendar_appointment_timeout_backlog=101),
    facts(calendar_appointment_timeout_backlog=1, calendar_appointment_timeout_oldest_overdue_age_seconds=301),
    facts(calendar_reminder_dispatch_backlog_oldest_age_seconds=301),
    facts(deliveries_oldest_age_seconds=1_801),
    facts(queue=shards(owned=0)),
    facts(queue=shards(owned=7, age=61)),
    facts(calendar_outbox_blocked_keys=1, calendar_outbox_parked=4),
    facts(writing_age_seconds=301),
    facts(unheard=301),
    facts(deliveries_parked=2),
    facts(failed=1),
    facts(calendar_reassignment_conflicts_open=1),
]
JUST_WELL = [
    facts(silent_for=4 * MINUTE),
    facts(calendar_appointment_timeout_backlog=100, calendar_appointment_timeout_oldest_overdue_age_seconds=300),
    facts(calendar_appointment_timeout_oldest_overdue_age_seconds=301),
    facts(calendar_reminder_dispatch_backlog_oldest_age_seconds=300),
    facts(deliveries_oldest_age_seconds=1_800),
    facts(queue=shards(owned=7)),
    facts(queue=shards(age=60)),
    facts(writing_age_seconds=300),
    facts(unheard=300),
]


@pytest.mark.parametrize("known", TROUBLES)
def test_over_the_limit_is_a_finding(known: Facts) -> None:
    assert diagnosis.diagnose(known)


@pytest.mark.parametrize("known", JUST_WELL)
def test_at_the_limit_is_none(known: Facts) -> None:
    assert diagnosis.diagnose(known) == []


def test_the_grave_ones_stand_first() -> None:
    graveness = [finding.is_grave for finding in diagnosis.diagnose(facts(failed=1, queue=shards(owned=0)))]

    assert graveness == sorted(graveness, reverse=True)
    assert set(graveness) == {True, False}


def anchors(name: str) -> set[str]:
    found = runbooks.read(name)
    assert found is not None
    return set(re.findall(r'<h\d id="([^"]+)"', found.body))


def test_every_runbook_that_is_named_has_that_section() -> None:
    alerts = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    named = {finding.runbook for known in TROUBLES for finding in diagnosis.diagnose(known) if finding.runbook}
    named |= {f"{name}#{section}" for name, section in re.findall(r"docs/runbooks/([\w-]+)\.md#([\w-]+)", alerts)}

    assert len(named) > 6
    assert [place for place in named if place.partition("#")[2] not in anchors(place.partition("#")[0])] == []


def test_the_limits_are_those_of_the_alerts() -> None:
    alerts = (ROOT / "deploy/prometheus/alerts.yml").read_text()

    for limit in (
        f"last_success_timestamp_seconds) > {diagnosis.SILENT_SECONDS:.0f}",
        f"calendar_appointment_timeout_backlog) > {diagnosis.BACKLOG}",
        f"backlog_oldest_age_seconds) > {diagnosis.LATE_SECONDS:.0f}",
        f"calendar_outbox_oldest_age_seconds) > {diagnosis.SLOW_OUTBOX_SECONDS:.0f}",
        f"calendar_notifications_oldest_pending_age_seconds) > {diagnosis.MAIL_SECONDS:.0f}",
    ):
        assert limit in alerts


@pytest.mark.django_db
def test_runbooks_are_read_in_the_admin_and_lead_to_each_other(admin_client: Client) -> None:
    for name in runbooks.names():
        page = admin_client.get(f"/admin/runbooks/{name}/")
        assert text_of(page).startswith("Runbook:")
        for target in re.findall(r'href="\.\./([\w-]+)/', page.content.decode()):
            assert admin_client.get(f"/admin/runbooks/{target}/").status_code == 200
    assert admin_client.get("/admin/runbooks/no-such/").status_code == 404


def test_html_in_a_runbook_stays_text(tmp_path: Path, settings: object) -> None:
    (tmp_path / "docs/runbooks").mkdir(parents=True)
    (tmp_path / "docs/runbooks/odd.md").write_text("# Odd <script>\n\n<b>bold</b>\n")
    settings.BASE_DIR = tmp_path  # type: ignore[attr-defined]

    found = runbooks.read("odd")

    assert found is not None
    assert "<script>" not in found.body
    assert "&lt;b&gt;" in found.body
    assert runbooks.read("../odd") is None


def test_bars_are_as_high_as_their_numbers() -> None:
    drawn = charts.bars([Bar(5, 0, "five"), Bar(0, 0, "none"), Bar(5, 5, "ten & <more>")], label="numbers")

    heights = re.findall(r'class="(done|failed)" x="([\d.]+)" y="([\d.]+)" width="0.8" height="([\d.]+)"', drawn)

    assert heights == [
        ("done", "0.10", "50.00", "50.00"),
        ("done", "2.10", "50.00", "50.00"),
        ("failed", "2.10", "0.00", "50.00"),
    ]
    assert "<title>ten &amp; &lt;more&gt;</title>" in drawn
    assert 'aria-label="numbers"' in drawn


def test_one_among_many_is_still_seen_and_nothing_is_no_error() -> None:
    assert 'height="2.00"' in charts.bars([Bar(1, 0, ""), Bar(10_000, 0, "")], label="")
    assert "<rect" not in charts.bars([], label="")
