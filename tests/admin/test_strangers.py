"""Every page of the back office as a stranger, the list read from the router."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.appointments import state

pytestmark = pytest.mark.django_db

OPEN = {"/admin/login/", "/admin/logout/"}


def pages(node: URLPattern | URLResolver | None = None, path: str = "/") -> Iterator[str]:
    """A path of every route below /admin/, its variables filled in."""
    node = node or next(pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "admin/")
    path += str(node.pattern)
    if isinstance(node, URLResolver):
        for inner in node.url_patterns:
            yield from pages(inner, path)
    else:
        yield re.sub(r"<\w+:\w+>|\(\?P.*\$$", "1", path)


def test_what_the_web_serves_is_the_back_office_and_the_api() -> None:
    """Whose routes are tried as a stranger here, and in tests/api/test_access.py."""
    assert {str(pattern.pattern) for pattern in get_resolver().url_patterns} == {"admin/", "api/v1/", "^api/"}


@pytest.mark.parametrize("who", ["nobody", "a user who is no staff"])
def test_a_stranger_is_asked_to_log_in_wherever_they_knock(who: str, django_user_model: Any) -> None:
    browser = Client()
    if who != "nobody":
        browser.force_login(django_user_model.objects.create_user("client"))
    closed = set(pages()) - OPEN
    assert len(closed) > 100
    before = state.everything()

    for page in sorted(closed):
        for answer in (browser.get(page), browser.post(page, {"confirm": "yes"})):
            assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, "/admin/login/"), page

    assert state.everything() == before
