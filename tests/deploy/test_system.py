"""All roles as real processes: what is told of them, what is not, and how they end."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from appointments import decisions
from appointments.matrix import Verb
from core import clock, sql
from core.ids import new_id
from dev.story import Story
from notifications.models import Delivery, Recipient, Status
from ops import demo_data
from outbox import topics
from tests import kafka_reader
from tests.deploy import compose, prometheus, system, watching
from tests.dev.processes import ROOT
from tests.notifications.mail_server import mail_server
from tests.waiting import eventually
from tests.workers.processes import database_url
from workers.topics import ensure

# The mark of the database makes pytest-django set it up; the processes themselves commit to it.
pytestmark = [pytest.mark.timeout(300), pytest.mark.django_db]

# Planted, and looked for where they must not be.
NAME, DOMAIN = "Zapolyarova", "planted-mail.example"
SECRETS = {"SECRET_KEY": "planted-secret-key-" + "k" * 40, "EMAIL_HOST_PASSWORD": "planted-mail-password"}
TOKEN = "planted-bearer-token"
FREE_TEXT = "planted words of a person"
# The texts of people are kept where they were typed.
TABLES_WITH_TEXTS = {"calendar_events", "appointments"}
TABLES_WITH_PEOPLE = {"recipients", "deliveries"}

SPEC_20 = {
    "calendar_appointment_timeout_cycle_duration_seconds_bucket",
    "calendar_appointment_timeout_items_total",
    "calendar_appointment_timeout_backlog",
    "calendar_appointment_timeout_skip_locked_total",
    "calendar_appointment_timeout_errors_total",
    "calendar_appointment_timeout_last_success_timestamp_seconds",
}
SPEC_30 = {
    "calendar_reminders_sent_total",
    "calendar_reminders_skipped_total",
    "calendar_reminder_dispatch_lag_seconds_bucket",
    "calendar_reminder_dispatch_cycle_duration_seconds_bucket",
    "calendar_reminder_dispatch_backlog_oldest_age_seconds",
    "calendar_reminder_dispatch_errors_total",
    "calendar_reminder_dispatch_last_success_timestamp_seconds",
}
SPEC_40 = {
    "calendar_outbox_ready",
    "calendar_outbox_oldest_age_seconds",
    "calendar_outbox_published_total",
    "calendar_outbox_publish_errors_total",
    "calendar_outbox_publish_latency_seconds_bucket",
    "calendar_outbox_parked",
    "calendar_outbox_blocked_keys",
    "calendar_outbox_shards_owned",
    "calendar_outbox_takeovers_total",
}


@dataclass(frozen=True)
class Seen:
    """What was seen of one run of the system, from its start to its end."""

    pages: dict[str, str]
    programs: dict[str, str]
    exit_codes: dict[str, int]
    logs: dict[str, str]
    tables: dict[str, str]
    messages: list[str]
    mails: list[str]
    watched: dict[str, Any] | None


@pytest.fixture(scope="module")
def seen(
    bootstrap: str, django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    """The story of the demo, told to every role; what it leaves in the database goes at the end."""
    with django_db_blocker.unblock():
        try:
            yield _run(bootstrap, tmp_path_factory.mktemp("prometheus"))
        finally:
            connection.close()
            call_command("flush", interactive=False, verbosity=0)


def _run(bootstrap: str, directory: Path) -> Seen:
    ensure(topics.names())
    prefix = f"system-{new_id()}-"
    for group in ("notifications", "crm-sync"):
        kafka_reader.skip_history(bootstrap, topics.names(), group=prefix + group)
    with (
        mail_server() as mails,
        system.running(
            DATABASE_URL=database_url(),
            KAFKA_CONSUMER_GROUP_PREFIX=prefix,
            APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="1",
            REMINDER_DISPATCH_INTERVAL_SECONDS="1",
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=str(mails.port),
            EMAIL_TLS="none",
            LOG_LEVEL="DEBUG",
            **SECRETS,
        ) as roles,
    ):
        _tell_a_story()
        _ask_with_a_token(roles["web"])
        eventually(lambda: len(mails.mails) == _deliveries(Status.SENT) > 0, "the mails have come", timeout=60)
        watched = _watch(roles, directory)
        pages = {name: role.get("/metrics") for name, role in roles.items()}
        return Seen(
            pages=pages,
            programs={name: role.program for name, role in roles.items()},
            exit_codes=system.stop(roles),
            logs={name: role.log.read_text() for name, role in roles.items()},
            tables=_tables(),
            messages=[str(record) for record in kafka_reader.read_all(bootstrap)],
            mails=[mail.as_string() for mail in mails.mails],
            watched=watched,
        )


def _tell_a_story() -> None:
    _introduce(*demo_data.ADDRESSES)
    story = Story(demo_data.seed(clock.now()), lambda _line: None)
    _introduce(story.agent.user_id)
    story.begin()
    decisions.change(story.moved.id, Verb.CANCEL, actor=story.agent.actor, as_of=clock.now(), reason=FREE_TEXT)
    eventually(story.is_over, "the workers have done their part", timeout=90, poll=0.2)
    eventually(lambda: _deliveries(Status.SENT) and not _deliveries(Status.PENDING), "all are told", timeout=60)


def _introduce(*user_ids: UUID) -> None:
    """People whom the demo would else introduce under addresses of its own."""
    for user_id in user_ids:
        Recipient.objects.create(user_id=user_id, email=f"{NAME}.{user_id.hex}@{DOMAIN}".lower(), locale="en")


def _deliveries(status: Status) -> int:
    return Delivery.objects.filter(status=status).count()


def _ask_with_a_token(web: system.Role) -> None:
    assert web.get("/api/v1/slots")
    request = Request(f"http://{web.address}/api/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
    with pytest.raises(HTTPError, match="401"):
        urlopen(request, timeout=10)


def _tables() -> dict[str, str]:
    names = [name for (name,) in sql.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    return {
        name: "\n".join(row for (row,) in sql.fetch(f'SELECT to_jsonb(t)::text FROM "{name}" AS t')) for name in names
    }


def _watch(roles: dict[str, system.Role], directory: Path) -> dict[str, Any] | None:
    """What a real Prometheus, where there is one, makes of the scrape, the alerts and the dashboard."""
    if (program := shutil.which("prometheus")) is None:
        return None
    targets = {name: role.address for name, role in roles.items()}
    with prometheus.scraping(program, targets, directory=directory) as server:
        # A rate needs two scrapes of each.
        eventually(
            lambda: len(server.query("count_over_time(up[1m]) > 2 and up == 1")) == len(roles), "scrapes", timeout=60
        )
        # A gauge is refreshed every few seconds, and messages of the story are told as of its past.
        eventually(
            lambda: {(rule["health"], rule["state"]) for rule in _rules(server)} == {("ok", "inactive")},
            "all rules are evaluated and no alert has cause",
            timeout=30,
        )
        asked = {query: query.replace("$__rate_interval", "1m") for query in watching.queries()}
        return {
            "rules": _rules(server),
            "results": {query: server.query(expression) for query, expression in asked.items()},
            "names": set(server.ask("label/__name__/values")),
        }


def _rules(server: prometheus.Prometheus) -> list[dict[str, Any]]:
    return [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]


def test_every_role_is_the_process_that_the_entrypoint_was(seen: Seen) -> None:
    assert seen.programs.keys() == compose.roles().keys()
    assert "gunicorn" in seen.programs["web"]
    assert "manage.py run_outbox_relay" in seen.programs["relay"]
    assert not [program for program in seen.programs.values() if "entrypoint" in program]


def test_every_role_ends_with_0_on_sigterm(seen: Seen) -> None:
    assert seen.exit_codes == dict.fromkeys(compose.roles(), 0)


@pytest.mark.parametrize("name", sorted(SPEC_20 | SPEC_30 | SPEC_40))
def test_a_metric_of_the_specs_is_told_and_watched(seen: Seen, name: str) -> None:
    assert name in system.declared(seen.pages)
    assert name in watching.metrics_in(watching.queries())


def test_every_metric_of_ours_is_in_an_alert_or_a_panel(seen: Seen) -> None:
    """Those of a histogram by any of its samples; when a counter was made is of no interest."""

    def families(names: set[str]) -> set[str]:
        ours = {name for name in names if name.startswith("calendar_") and not name.endswith("_created")}
        return {re.sub("_(bucket|sum|count)$", "", name) for name in ours}

    assert sorted(families(system.declared(seen.pages)) - families(watching.metrics_in(watching.queries()))) == []


def test_what_is_watched_is_told(seen: Seen) -> None:
    assert watching.metrics_in(watching.queries()) - system.declared(seen.pages) == set()


def test_what_runbooks_name_is_told(seen: Seen) -> None:
    texts = [path.read_text() for path in (ROOT / "docs/runbooks").glob("*.md")]
    named = {name for text in texts for name in re.findall(r"`(calendar_\w+)`", text)}

    assert "calendar_outbox_parked" in named
    assert named - system.declared(seen.pages) == set()


def test_backlogs_ages_and_last_successes_have_two_sources(seen: Seen) -> None:
    of_web = system.declared({"web": seen.pages["web"]})
    of_workers = system.declared({name: page for name, page in seen.pages.items() if name != "web"})
    gauges = {name for name in of_web & of_workers if name.startswith("calendar_")}

    assert {
        "calendar_appointment_timeout_backlog",
        "calendar_appointment_timeout_last_success_timestamp_seconds",
        "calendar_reminder_dispatch_backlog_oldest_age_seconds",
        "calendar_reminder_dispatch_last_success_timestamp_seconds",
        "calendar_outbox_oldest_age_seconds",
        "calendar_outbox_parked",
    } <= gauges


def test_prometheus_answers_every_query_that_has_something_to_tell(seen: Seen) -> None:
    watched = _watched(seen)

    silent = {query for query, series in watched["results"].items() if not series}
    conditions = {rule["expr"] for rule in watching.alerts().values()}
    for query in silent - conditions:
        assert not watching.metrics_in([query]) <= watched["names"], query


def test_prometheus_takes_the_alerts_and_none_of_them_has_cause(seen: Seen) -> None:
    rules = _watched(seen)["rules"]

    assert {(rule["name"], rule["state"]) for rule in rules} == {(name, "inactive") for name in watching.alerts()}


def _watched(seen: Seen) -> dict[str, Any]:
    if seen.watched is None:
        pytest.skip("prometheus is not installed (Debian's package of that name)")
    return seen.watched


def test_people_are_named_in_their_mails_and_nowhere_else(seen: Seen) -> None:
    personal = (NAME.lower(), DOMAIN)

    assert len(_found(seen.mails, personal)) == len(seen.mails)
    assert _places({"recipients": seen.tables["recipients"]}, personal) == ["recipients"]
    others = {name: rows for name, rows in seen.tables.items() if name not in TABLES_WITH_PEOPLE}
    assert _places(others, personal) == []
    assert _places(seen.logs, ("delivery recorded",)) == ["notifications"]
    assert _places(seen.logs, personal) == []
    assert _found(seen.messages, personal) == []


def test_texts_of_people_are_in_no_log_and_no_message(seen: Seen) -> None:
    texts = (FREE_TEXT, "Звонок застройщику", "Встреча в офисе")

    assert _places({"t": seen.tables["calendar_events"]}, texts) == ["t"]
    others = {n: rows for n, rows in seen.tables.items() if n not in TABLES_WITH_PEOPLE | TABLES_WITH_TEXTS}
    assert _places(others, texts) == []
    assert _places(seen.logs, texts) == []
    assert _found(seen.messages, texts) == []


def test_secrets_are_nowhere(seen: Seen) -> None:
    secrets = (*SECRETS.values(), TOKEN, connection.settings_dict["PASSWORD"])

    assert _places(seen.logs, secrets) == []
    assert _places(seen.tables, secrets) == []
    assert _places(seen.pages, secrets) == []
    assert _found(seen.messages + seen.mails, secrets) == []


def _places(texts: dict[str, str], words: tuple[str, ...]) -> list[str]:
    return [name for name, text in texts.items() if _found([text], words)]


def _found(texts: list[str], words: tuple[str, ...]) -> list[str]:
    return [text for text in texts if any(word.lower() in text.lower() for word in words)]
