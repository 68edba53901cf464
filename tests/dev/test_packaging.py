"""The image gets what it runs and no more; its helpers do what they say."""

import http.server
import subprocess
import threading
import tomllib
from collections.abc import Iterator

import pytest

from deploy.healthcheck import is_alive
from dev.processes import free_port
from tests.dev.processes import ROOT


def test_the_image_has_all_packages_but_those_for_development() -> None:
    packages = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"])
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    directories = {name for name in let_through if (ROOT / name).is_dir()}

    assert directories == (packages - {"dev"}) | {"docs/runbooks"}  # the admin shows these
    assert all((ROOT / name).exists() for name in let_through)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["gunicorn", "config.wsgi"], "gunicorn config.wsgi"),
        (["run_outbox_relay", "--once"], "python manage.py run_outbox_relay --once"),
        ([], "python manage.py"),
    ],
)
def test_the_first_word_decides_the_role_of_the_image(
    words: list[str], command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = tmp_path_factory.mktemp("bin")
    for name in ("gunicorn", "python"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)

    shown = subprocess.run(
        [ROOT / "deploy/entrypoint", *words], env={"PATH": f"{programs}"}, capture_output=True, text=True, check=True
    )

    assert shown.stdout == f"{command}\n"


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every request with the server's status."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(("status", "alive"), [(200, True), (301, False), (404, False), (503, False)])
def test_health_is_the_answer_200(
    web: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch, status: int, alive: bool
) -> None:
    monkeypatch.setattr(Answering, "status", status)
    assert is_alive(web.server_port) is alive


def test_nobody_listening_is_not_healthy() -> None:
    assert not is_alive(free_port())
