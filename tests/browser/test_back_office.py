"""The back office in a real browser: readable in light and dark, on a desk and on a phone, by itself."""

import re

import pytest

from appointments.models import Appointment
from core import clock
from core.ids import new_id
from ops import demo_data
from ops.workforce import WORKERS
from outbox.models import OutboxMessage
from tests.browser.conftest import Window
from tests.factories import MINUTE
from workers.models import JobRun


@pytest.fixture(autouse=True)
def _data(window: Window) -> None:
    """The data set of the demo, and two hours of the workers' lives."""
    as_of = clock.now()
    demo_data.seed(as_of)
    JobRun.objects.bulk_create(
        JobRun(
            id=new_id(),
            job=worker.name,
            instance="here:1",
            as_of=as_of - ago * MINUTE,
            started_at=as_of - ago * MINUTE,
            duration_ms=20 + ago,
            outcome="Failed" if worker.name == "notifications" and ago == 50 else "Succeeded",
            counts={worker.done: ago % 17},
        )
        for worker in WORKERS
        for ago in range(1, 120)
    )


def contrast(one: str, other: str) -> float:
    """The ratio of two CSS colours' luminances, as WCAG has it."""

    def luminance(colour: str) -> float:
        channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def is_readable(window: Window, place: str, *, on: str = "", least: float = 4.5) -> bool:
    """Whether the words there stand out from their ground, `on` being what has it where they have none of their own."""
    words, ground = window.colours(place)
    return contrast(words, window.colours(on)[1] if on else ground) >= least


def test_every_page_fits_is_readable_and_needs_nobody_else(window: Window) -> None:
    appointment = Appointment.objects.filter(status="Pending").earliest("pending_expires_at")
    message = OutboxMessage.objects.earliest("id")
    pages = {
        "index": "/admin/",
        "runbook": "/admin/runbooks/outbox-backlog/",
        "appointment": f"/admin/appointments/appointment/{appointment.pk}/change/",
        "decline": f"/admin/appointments/appointment/{appointment.pk}/do/decline/",
        "messages": "/admin/outbox/outboxmessage/?question=waiting",
        "message": f"/admin/outbox/outboxmessage/{message.pk}/change/",
        "runs": "/admin/workers/jobrun/",
        "audit": "/admin/audit/auditline/",
        "appointments": "/admin/appointments/appointment/",
        "operations": "/admin/operations/?hours=1",
    }
    too_wide = {}

    for subject, path in pages.items():
        window.open(path)
        window.keep_picture(subject)
        if window.overflow() > 0:
            too_wide[subject] = window.overflow()

    assert too_wide == {}
    assert window.complaints == []
    assert is_readable(window, "body", least=7)
    assert is_readable(window, "#site-name a", on="#header")
    for place in (".badge.good", ".badge.waiting", ".badge.bad", ".verdict .button"):
        assert is_readable(window, place), place


@pytest.mark.parametrize("window", ["light phone"], indirect=True)
def test_a_phone_shows_a_row_as_a_card_that_names_its_values(window: Window) -> None:
    window.open("/admin/appointments/appointment/")
    cell = window.page.locator("#result_list .field-status").first

    assert cell.evaluate("element => getComputedStyle(element, '::before').content") == '"Status"'
    assert cell.evaluate("element => getComputedStyle(element.parentElement).display") == "block"


@pytest.mark.parametrize("window", ["light"], indirect=True)
def test_a_request_is_declined_from_the_list_to_the_story(window: Window) -> None:
    appointment = Appointment.objects.filter(status="Pending").earliest("pending_expires_at")
    page = window.page
    window.open(f"/admin/appointments/appointment/?q={appointment.pk}")

    page.locator("#result_list a").first.click()
    page.get_by_role("link", name="Decline", exact=True).click()
    page.get_by_label("Reason").fill("Квартира продана")
    page.get_by_role("button", name="Decline").click()

    assert page.locator(".messagelist .success").inner_text().endswith("is Declined.")
    last = page.locator(".story ol > li").last.inner_text()
    assert "by operator olga" in last
    assert "«Квартира продана»" in last
    assert page.locator("a.intervention").count() == 0
    window.keep_picture("declined")
    assert window.complaints == []


@pytest.mark.parametrize("window", ["light"], indirect=True)
def test_charts_have_a_bar_where_something_was_done(window: Window) -> None:
    window.open("/admin/operations/?hours=1")
    chart = window.page.get_by_role("img", name=re.compile("^requests expired over the last 1 h"))

    box = chart.locator("rect.done").first.bounding_box()

    assert chart.locator("rect.done").count() > 40
    assert box is not None
    assert box["height"] > 0
