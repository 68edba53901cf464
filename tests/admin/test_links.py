"""From what is looked at to what it is about."""

import html
import re
from typing import Any

import pytest
from django.test import Client

from appointments.models import Appointment
from audit.models import AuditLine
from crm.models import LeadFeedEntry
from notifications.models import Delivery
from pin_calendar.models import CalendarEvent
from tests.admin.pages import confirm, record_url
from tests.admin.rows import a_deadline, a_delivery, a_lead_feed_entry, a_parked_message, a_run, an_event
from tests.factories import an_open_appointment
from tests.ops import lives
from workers.models import JobRun

pytestmark = pytest.mark.django_db


def href_of(page: str, said: str) -> str:
    """Where the link with these words leads."""
    found = re.search(rf'<a href="([^"]+)">{said}</a>', page)
    assert found, said
    return html.unescape(found[1])


def test_a_line_of_the_audit_log_leads_to_what_was_changed_and_to_the_run(viewer: Client) -> None:
    request = lives.lapsed()
    line = AuditLine.objects.get(aggregate_id=request.id, verb="expire")
    run = a_run(expiredCount=1)
    JobRun.objects.filter(id=run.id).update(id=line.correlation_id)

    page = viewer.get(record_url(line)).content.decode()

    assert record_url(Appointment.objects.get(id=request.id)) in page
    assert record_url(JobRun.objects.get()) in page


def test_a_line_about_a_message_leads_to_the_message(operator: Client) -> None:
    message = a_parked_message()
    confirm(operator, message, "retry")
    line = AuditLine.objects.get(aggregate="Message")

    page = operator.get(record_url(line)).content.decode()

    assert [found.pk for found in operator.get(href_of(page, "its message")).context["cl"].result_list] == [message.pk]


@pytest.mark.parametrize(("make", "said"), [(an_open_appointment, "its appointment"), (an_event, "its event")])
def test_a_delivery_leads_to_what_it_tells_of(viewer: Client, make: Any, said: str) -> None:
    subject, delivery = make(), a_delivery()
    Delivery.objects.filter(id=delivery.id).update(subject_id=subject.pk)

    page = viewer.get(record_url(delivery)).content.decode()

    assert href_of(page, said) == record_url(subject)


def test_a_deadline_and_a_line_of_the_lead_feed_lead_to_theirs(viewer: Client) -> None:
    deadline, entry, appointment = a_deadline(), a_lead_feed_entry(), an_open_appointment()
    LeadFeedEntry.objects.update(appointment_id=appointment.id)

    of_deadline = viewer.get(record_url(deadline)).content.decode()
    of_entry = viewer.get(record_url(entry)).content.decode()

    assert href_of(of_deadline, "its event") == record_url(CalendarEvent.objects.get(origin="CrmDeadline"))
    assert href_of(of_entry, "its appointment") == record_url(appointment)
