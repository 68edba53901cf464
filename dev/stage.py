"""Where the demo's story is told: the processes, the screen, and what holds for the system as a whole."""

import datetime
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from django.conf import settings
from django.contrib.auth.models import User
from rich.console import Console

from api import tokens
from core import clock, sql
from core.ids import new_id
from dev.console import Reader, Received, without_repeats
from dev.inbox import Inbox
from dev.mailbox import Mailbox
from dev.processes import HOST, free_port
from dev.run import MANAGE
from dev.screen import Screen, is_news
from dev.story import Fact, Story
from dev.supervisor import Supervisor
from ops import demo_data
from ops.demo_data import DemoData

_WORKERS = {
    "timeout": ("run_appointment_timeout", "--interval", "2"),
    "dispatcher": ("run_reminder_dispatch", "--interval", "2"),
    "relay": ("run_outbox_relay",),
    "notifications": ("run_notifications", "--interval", "1"),
    "crm-sync": ("run_crm_sync", "--interval", "1"),
}
_USER = "demo"
_STORY_SECONDS = 60.0
_READ_SECONDS = 20.0
_START_SECONDS = 30.0
_PAUSE_SECONDS = 30.0
_POLL_SECONDS = 0.25
_LOG_WIDTH = 150


def run(*, once: bool, log_level: str, is_database_ours: bool) -> int:
    """On a migrated database and with topics: the story until Ctrl-C, or once. 1 when it was not as told, or when a
    process ended by itself."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _LOG_WIDTH)
    with (
        Mailbox() as mailbox,
        Inbox(mailbox) as inbox,
        Screen(console) as screen,
        Supervisor(console=console, is_shown=is_news) as supervisor,
    ):
        stage = Stage(screen, supervisor, mailbox, inbox_url=inbox.url, log_level=log_level)
        people = stage.start(with_user=is_database_ours)
        while True:
            facts = stage.tell(Story(people, screen.say))
            if once:
                return 0 if all(fact.is_so for fact in facts) else 1
            screen.say(f"The story is told again in {_PAUSE_SECONDS:.0f} s; Ctrl-C stops everything")
            stage.wait(lambda: bool(supervisor.failed()), seconds=_PAUSE_SECONDS)
            if supervisor.failed():
                screen.say(f"Ended by themselves: {stage.ended()}")
                return 1


class Stage:
    """The processes of the demo and the looks at them from outside."""

    def __init__(
        self, screen: Screen, supervisor: Supervisor, mailbox: Mailbox, *, inbox_url: str, log_level: str
    ) -> None:
        self._screen = screen
        self._supervisor = supervisor
        self._mailbox = mailbox
        self._inbox_url = inbox_url
        self._address = f"{HOST}:{free_port()}"
        self._web, self._api = f"http://{self._address}/admin/", f"http://{self._address}/api/v1"
        self._environ = {
            "LOG_LEVEL": log_level,
            "EMAIL_HOST": HOST,
            "EMAIL_PORT": str(mailbox.port),
            "EMAIL_TLS": "none",
            "SHOWCASE_URL": f"{self._api}/slots",
        }

    def start(self, *, with_user: bool) -> DemoData:
        """The data and every process, the web with a log-in of its own when `with_user`; returns the data."""
        for name, command in _WORKERS.items():
            self._start(name, [*MANAGE, *command], PIN_PROCESS_NAME=f"demo {name}")
        self._start_web()
        data = demo_data.seed(clock.now())
        self._screen.say(
            f"Data: an agency with {len(data.agents)} agents, {len(data.consultants)} consultants of PIN, "
            f"{len(data.investors)} investors, {len(data.slot_ids)} slots, {len(data.appointment_ids)} appointments"
        )
        self.wait(_is_outbox_empty, seconds=_START_SECONDS)
        self._start("console", [sys.executable, "-m", "dev.console"])
        self.wait(lambda: self._web_status() is not None, seconds=_START_SECONDS)
        log_in = f", log in as {_USER} with {_make_user()}" if with_user else ""
        self._screen.pin(f"Web: {self._web}{log_in}")
        self._screen.pin(f"API: {self._api}/docs, and a tour of it with curl in docs/api-tour.md")
        self._screen.pin(f"Mails: {self._inbox_url}, where all mails of the demo end")
        if with_user:
            # Bare lines, to be pasted into a shell.
            for name, value in {"API": self._api, **_tokens(data)}.items():
                self._screen.console.print(f"export {name}={value}", soft_wrap=True, markup=False)
        return data

    def tell(self, story: Story) -> list[Fact]:
        """The story to its end; its facts and those of the whole system, shown as a table."""
        story.begin()
        self.wait(lambda: story.is_over() or bool(self._supervisor.failed()), seconds=_STORY_SECONDS)
        facts = [
            *story.facts(_read_kafka(), self._mailbox.mails),
            Fact("log-in page of the admin", "200", str(self._web_status() or "no answer")),
            Fact("check_invariants", "no violation", _violations()),
            Fact("processes that ended by themselves", "none", self.ended()),
        ]
        self._screen.show_facts(facts)
        return facts

    def wait(self, condition: Callable[[], bool], *, seconds: float) -> None:
        """Keep the screen up to date until the condition holds, or for so long."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._screen.refresh()
            time.sleep(_POLL_SECONDS)

    def ended(self) -> str:
        """The processes that ended by themselves, with their exit codes."""
        return ", ".join(f"{name} ({code})" for name, code in self._supervisor.failed().items()) or "none"

    def _start(self, name: str, argv: Sequence[str], **environ: str) -> None:
        pid = self._supervisor.start(name, argv, env=self._environ | environ)
        self._screen.say(f"Started {name}, process {pid}")

    def _start_web(self) -> None:
        gunicorn = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "--log-level", "warning"]
        # Static files come from where the packages have them, and whitenoise warns that nobody has collected them.
        quiet = {"WEB_CONCURRENCY": "1", "PYTHONWARNINGS": "ignore:No directory at"}
        self._start("web", [*gunicorn, "--bind", self._address, "config.wsgi"], **quiet)

    def _web_status(self) -> int | None:
        try:
            with urlopen(f"{self._web}login/", timeout=5) as answer:
                status: int = answer.status
                return status
        except HTTPError as error:
            return error.code
        except (URLError, OSError):
            return None


def _tokens(data: DemoData) -> dict[str, str]:
    """Of a new agent of the agency, who has nothing yet, and of an investor; good for a day."""
    permissions = ("calendar.slots.manage", "calendar.appointments.decide", "calendar.events.manage")
    as_of, a_day = clock.now(), datetime.timedelta(days=1)
    return {
        "AGENT": tokens.issue(
            user_id=new_id(), tenant_id=data.agency_tenant_id, permissions=permissions, as_of=as_of, lifetime=a_day
        ),
        "INVESTOR": tokens.issue(user_id=new_id(), as_of=as_of, lifetime=a_day),
    }


def _make_user() -> str:
    """A superuser of the embedded database, which goes when the demo ends; returns the password."""
    password = secrets.token_urlsafe(9)
    User.objects.create_superuser(_USER, password=password)
    return password


def _is_outbox_empty() -> bool:
    [(count,)] = sql.fetch("SELECT count(*) FROM outbox_ready")
    return not count


def _read_kafka() -> list[Received]:
    reader = Reader(settings.ENV.kafka_bootstrap_servers)
    try:
        return without_repeats(reader.read_to_end(timeout=_READ_SECONDS))
    finally:
        reader.close()


def _violations() -> str:
    done = subprocess.run(
        [*MANAGE, "check_invariants", "--json"], env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and json.loads(done.stdout)["isHealthy"]:
        return "no violation"
    return done.stderr.strip() or f"exit code {done.returncode}"
