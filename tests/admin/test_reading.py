"""Whatever an operator looks at, nothing is changed by it: browsers and mail scanners fetch links ahead."""

import html
import re
from collections.abc import Iterator

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from backoffice.records import RecordAdmin
from tests.admin.pages import intervention_url, list_url, record_url
from tests.admin.rows import a_parked_message
from tests.admin.test_interventions import CASES
from tests.admin.test_records import one_of_each
from tests.appointments import state

pytestmark = pytest.mark.django_db

HREF = re.compile(r'href="(/admin/[^"#]*)')
NOT_FOLLOWED = ("/admin/logout/", "/admin/password_change/")


def crawled(browser: Client, start: str = "/admin/") -> Iterator[str]:
    """Every page of the back office that links lead to."""
    known, waiting = {start}, [start]
    while waiting:
        page = waiting.pop()
        answer = browser.get(page)
        if answer.status_code == 302:  # the rows of these tests name some that there are not
            continue
        assert answer.status_code == 200, page
        yield page
        found = {html.unescape(href) for href in HREF.findall(answer.content.decode())}
        new = {href for href in found - known if not href.startswith(NOT_FOLLOWED)}
        known |= new
        waiting += sorted(new)


def test_reading_changes_nothing(operator: Client) -> None:
    one_of_each()
    a_parked_message()
    for case in CASES:
        case.make()
    before = state.everything()

    pages = set(crawled(operator))

    assert state.everything() == before
    assert not LogEntry.objects.exists()
    assert "/admin/operations/" in pages
    for model, its in admin.site._registry.items():
        if isinstance(its, RecordAdmin):
            assert list_url(model) in pages
            records = list(model._default_manager.all())
            assert any(record_url(record) in pages for record in records), model
            for offered in its.interventions:
                assert any(intervention_url(record, offered.name) in pages for record in records), offered.name
