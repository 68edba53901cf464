"""Debian's chromium, headless, at the back office of a live server with data in it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from ops import groups

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PASSWORD = "a long one for tests"
SHOTS = os.environ.get("SCREENSHOTS_DIRECTORY")
DESKTOP, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    if not CHROMIUM:
        pytest.skip("chromium is not installed here: apt-get install chromium")
    # Playwright keeps an event loop in this thread, which makes Django suspect asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    try:
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            yield browser
            browser.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


class Window:
    """A window of Olga's browser, logged in; it notes what a page must not do."""

    def __init__(self, context: BrowserContext, *, base_url: str, name: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(10_000)
        self.complaints: list[str] = []
        self._base_url, self._name = base_url, name
        self.page.on("console", lambda said: self._complain(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on("request", lambda request: self._notice(request.url))

    def _complain(self, what: str) -> None:
        self.complaints.append(what)

    def _notice(self, url: str) -> None:
        if not url.startswith((self._base_url, "data:")):
            self._complain(f"asked {url}")

    def log_in(self) -> None:
        self.open("/admin/login/")
        self.page.get_by_label("Username").fill("olga")
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()

    def open(self, path: str) -> None:
        """Go there."""
        answer = self.page.goto(self._base_url + path)
        assert answer is not None
        assert answer.status == 200, path

    def keep_picture(self, subject: str) -> None:
        """For people to look at, where SCREENSHOTS_DIRECTORY says."""
        if SHOTS:
            self.page.screenshot(path=Path(SHOTS) / f"{subject}-{self._name}.png", full_page=True)

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        size = self.page.viewport_size
        assert size is not None
        return int(self.page.evaluate("document.documentElement.scrollWidth")) - size["width"]

    def colours(self, selector: str) -> tuple[str, str]:
        """The text's and the background's computed colours."""
        found: list[str] = self.page.locator(selector).first.evaluate(
            "element => [getComputedStyle(element).color, getComputedStyle(element).backgroundColor]"
        )
        return found[0], found[1]


@pytest.fixture
def olga(transactional_db: Any) -> User:
    groups.ensure()
    user = User.objects.create_user("olga", password=PASSWORD, is_staff=True)
    user.groups.add(Group.objects.get(name=groups.OPERATORS))
    return user


@pytest.fixture(params=["light", "dark", "light phone", "dark phone"])
def window(request: pytest.FixtureRequest, chromium: Browser, live_server: Any, olga: User) -> Iterator[Window]:
    """In light and dark, on a desk and on a phone."""
    scheme, _, device = request.param.partition(" ")
    context = chromium.new_context(
        viewport=PHONE if device else DESKTOP,
        color_scheme=scheme,
        is_mobile=bool(device),
        reduced_motion="reduce",
    )
    opened = Window(context, base_url=live_server.url, name=request.param.replace(" ", "-"))
    opened.log_in()
    yield opened
    context.close()
