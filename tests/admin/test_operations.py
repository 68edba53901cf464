"""The operations page says what is wrong, shows what the workers did, and costs the same whatever the tables hold."""

import datetime
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from core.ids import new_id
from ops import collector, workforce
from ops.workforce import WORKERS
from outbox.models import OutboxMessage, OutboxReady
from reminders.models import EventReminder
from tests.admin.pages import list_url, text_of
from tests.admin.rows import a_conflict, a_delivery, a_parked_message
from tests.factories import HOUR, MINUTE, NOON, SECOND, an_open_appointment, an_overdue_appointment
from tests.ops import lives
from workers.models import JobRun, ProcessedMessage

pytestmark = pytest.mark.django_db

PAGE = "/admin/operations/"


def ran(job: str, *, ago: datetime.timedelta, outcome: str = "Succeeded", ms: int = 40, **counts: int) -> None:
    JobRun.objects.create(
        id=new_id(),
        job=job,
        instance="here:1",
        as_of=NOON - ago,
        started_at=NOON - ago,
        duration_ms=ms,
        outcome=outcome,
        counts=counts,
    )


def all_workers_ran() -> None:
    for worker in WORKERS:
        ran(worker.name, ago=MINUTE)
    for worker in WORKERS:
        JobRun.objects.filter(job=worker.name).update(counts={worker.done: 5})


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> None:
    """All shards are owned by one relay."""
    monkeypatch.setattr("outbox.operations.OWNERS", "SELECT shard, 4711 FROM generate_series(0, 7) AS shard")


def findings(client: Client) -> list[str]:
    return [item["finding"].sentence for item in client.get(PAGE).context["findings"]]


@pytest.mark.usefixtures("relay")
def test_all_is_well(viewer: Client) -> None:
    all_workers_ran()

    page = text_of(viewer.get(PAGE))

    assert "All is well" in page
    for worker in WORKERS:
        assert f"{worker.name} well" in page
        assert f"5 {worker.unit}" in page


def test_an_empty_system_says_that_nothing_runs(viewer: Client) -> None:
    assert findings(viewer) == [
        "No cycle of run_appointment_timeout has succeeded ever, as far as is known: requests do not lapse.",
        "No cycle of run_reminder_dispatch has succeeded ever, as far as is known: no reminder is sent.",
        "No relay is running: nothing is published.",
    ]


@pytest.mark.usefixtures("relay")
def test_a_silent_worker_is_named_with_its_runbook(viewer: Client) -> None:
    all_workers_ran()
    JobRun.objects.filter(job="appointment-timeout").update(started_at=NOON - 6 * MINUTE)
    ran("appointment-timeout", ago=MINUTE, outcome="Failed")

    [silent, failed] = viewer.get(PAGE).context["findings"]

    assert silent["finding"].sentence.startswith("No cycle of run_appointment_timeout has succeeded for 5 min")
    assert silent["runbook_url"] == "/admin/runbooks/appointment-timeout/#the-worker-does-not-run-or-hangs"
    assert failed["finding"].sentence == "run_appointment_timeout failed 1 time in the last 6 hours."
    assert viewer.get(failed["rows_url"]).context["cl"].result_count == 1


def late_request() -> None:
    an_overdue_appointment(pending_expires_at=NOON - 6 * MINUTE)


def late_reminder() -> None:
    an_open_appointment()
    EventReminder.objects.filter(offset_minutes=60).update(due_at=NOON - 6 * MINUTE)


def waiting_message() -> None:
    lives.a_request(as_of=NOON - 2 * MINUTE)


def handled_by(*consumers: str) -> None:
    for worker in WORKERS:
        if worker.name in consumers:
            for message in OutboxMessage.objects.all():
                ProcessedMessage.objects.create(
                    consumer=worker.consumer, message_id=message.message_id, processed_at=NOON
                )


def unheard_message() -> None:
    lives.a_request(as_of=NOON - 6 * MINUTE)
    OutboxReady.objects.all().delete()
    handled_by("crm-sync")


def stuck_message() -> None:
    a_parked_message()
    handled_by("notifications", "crm-sync")


@pytest.mark.usefixtures("relay")
@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (late_request, "1 request past the deadline, the oldest for 6 min."),
        (late_reminder, "A reminder has been due for 6 min and is not sent."),
        (waiting_message, "The oldest message has been waiting for 2 min."),
        (unheard_message, "run_notifications has not handled 1 published message, the oldest told 6 min ago."),
        (a_delivery, "1 delivery given up: people were not told."),
        (
            lambda: a_delivery("pending"),
            "A delivery has been due for 1 d: is run_notifications alive, does the mail server answer?",
        ),
        (a_conflict, "1 appointment left behind by a reassignment: somebody must decide."),
        (
            stuck_message,
            "1 message can't be published; with those behind, 2 messages parked.",
        ),
    ],
)
def test_each_trouble_is_one_sentence_with_a_way_to_its_rows(viewer: Client, trouble: Any, sentence: str) -> None:
    all_workers_ran()
    trouble()

    found = viewer.get(PAGE).context["findings"]

    assert [item["finding"].sentence for item in found] == [sentence]
    if found[0]["rows_url"]:
        assert viewer.get(found[0]["rows_url"]).context["cl"].result_count == 1


def test_every_way_that_the_page_knows_leads_somewhere(viewer: Client) -> None:
    late_request()
    a_delivery("pending")
    a_conflict()
    a_parked_message()
    for worker in WORKERS:
        ran(worker.name, ago=10 * MINUTE, outcome="Failed")
    page = viewer.get(PAGE)

    links = set(re.findall(r'href="(/admin/[^"#]*)', page.content.decode())) - {"/admin/password_change/"}

    assert len(links) > 15
    assert {link: viewer.get(link.replace("&amp;", "&")).status_code for link in links} == dict.fromkeys(links, 200)


def test_the_window_decides_what_is_counted(viewer: Client) -> None:
    ran("reminder-dispatch", ago=30 * MINUTE, sentCount=1, failedCount=0, ms=20)
    ran("reminder-dispatch", ago=3 * HOUR, sentCount=10, failedCount=2, ms=90)
    ran("reminder-dispatch", ago=20 * HOUR, sentCount=100, failedCount=0, ms=4_000)

    def card(query: str) -> dict[str, Any]:
        cards = viewer.get(PAGE + query).context["cards"]
        return next(card for card in cards if card["worker"].name == "reminder-dispatch")

    assert card("?hours=1")["rate"] == "1 reminders sent"
    assert (card("")["rate"], card("")["record"].failed) == ("11 reminders sent", 2)
    assert card("?hours=24")["rate"] == "111 reminders sent"
    assert card("?hours=24")["took"] == "1.4 s on average, 4.0 s at most"
    assert card("?hours=7")["rate"] == card("?hours=x")["rate"] == card("")["rate"]


def test_what_a_worker_did_stands_in_the_bar_of_its_time() -> None:
    ran("outbox-relay", ago=6 * HOUR - SECOND, published=3, failed=0)
    ran("outbox-relay", ago=SECOND, published=4, failed=1)

    record = workforce.records(as_of=NOON, hours=6, buckets=72)["outbox-relay"]

    assert {place: (bar.done, bar.failed) for place, bar in enumerate(record.buckets) if bar.done} == {
        0: (3, 0),
        71: (4, 1),
    }
    assert record.last_success_at == NOON - SECOND + datetime.timedelta(milliseconds=40)


def test_a_row_of_many_cycles_counts_as_many() -> None:
    ran("outbox-relay", ago=MINUTE, ms=600, cycles=3, published=30, failed=1)
    ran("outbox-relay", ago=2 * MINUTE, ms=250, published=5)

    record = workforce.records(as_of=NOON, hours=1, buckets=60)["outbox-relay"]

    assert (record.cycles, record.done, record.failed) == (4, 35, 1)
    assert (record.mean_ms, record.longest_ms) == (212, 250)


def test_a_message_counts_as_unheard_only_where_it_is_read_and_was_published() -> None:
    lives.a_request(as_of=NOON - 2 * MINUTE)
    waiting = workforce.unheard(as_of=NOON)
    OutboxReady.objects.all().delete()
    published = workforce.unheard(as_of=NOON)
    handled_by("notifications")

    assert {name: behind.count for name, behind in waiting.items()} == {"notifications": 0, "crm-sync": 0}
    assert {name: behind.count for name, behind in published.items()} == {"notifications": 1, "crm-sync": 1}
    assert published["crm-sync"].oldest_age_seconds == 120
    assert {name: behind.count for name, behind in workforce.unheard(as_of=NOON).items()} == {
        "notifications": 0,
        "crm-sync": 1,
    }


def test_the_page_costs_the_same_however_much_there_is(viewer: Client) -> None:
    viewer.get(PAGE)
    with CaptureQueriesContext(connection) as quiet:
        viewer.get(PAGE)
    for n in range(20):
        ran("outbox-relay", ago=n * MINUTE, published=n)
        an_overdue_appointment()
        lives.a_request()

    with CaptureQueriesContext(connection) as busy:
        viewer.get(PAGE)

    assert len(busy) == len(quiet) <= 14


def test_a_database_that_does_not_answer_is_told(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(collector, "read", read)

    page = viewer.get(PAGE)

    assert page.status_code == 503
    assert "The database does not answer OperationalError." in text_of(page)


def test_the_page_is_for_those_who_may_see_runs(client: Client) -> None:
    assert client.get(PAGE).status_code == 302
    client.force_login(User.objects.create_user("nobody", is_staff=True))
    assert client.get(PAGE).status_code == 403
    assert reverse("admin:operations") not in client.get("/admin/").content.decode()


def test_the_page_is_one_click_away(viewer: Client) -> None:
    assert f'href="{PAGE}"' in viewer.get(list_url(JobRun)).content.decode()
