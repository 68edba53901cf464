"""Trying mutants: a child of a process that has imported what is not ours runs the tests with the mutant in place."""

import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import pytest

from dev.processes import die_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent
_PYTEST = ("-q", "-x", "--tb=line", "--reuse-db", "--no-header", "-p", "no:cacheprovider", "--timeout=30")
_PLUGINS = ("pytest_django.plugin", "pytest_timeout")
# The smallest example of a failure is worth minutes to a person; here the first one will do.
_WITHOUT_SHRINKING = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
# What the project imports, as far as it can be imported before Django has its settings.
_THIRD_PARTY = (
    "confluent_kafka.admin",
    "django.contrib.postgres",
    "django.core.management",
    "django.db.backends.postgresql.base",
    "django.db.migrations.executor",
    "django.test",
    "django_prometheus",
    "factory",
    "hypothesis.strategies",
    "icalendar",
    "jwt",
    "markdown_it",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.trace",
    "orjson",
    "prometheus_client",
    "psycopg",
    "pydantic_settings",
    "pytest",
    "rich.table",
    "structlog",
    "uuid_utils",
)


Key = tuple[str, str, str, str]


class Verdict(StrEnum):
    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Mutant:
    """A module's text with one defect. `where` is the function or class, `was` and `becomes` the lines that differ."""

    module: str
    where: str
    was: str
    becomes: str
    source: str

    @property
    def key(self) -> Key:
        """What it is known by in the list of justified ones: as long as its lines stay, wherever they move."""
        return self.module, self.where, self.was, self.becomes

    def __str__(self) -> str:
        return f"{self.module} {self.where}\n  - {self.was}\n  + {self.becomes}"


def prepare(database_url: str, parent: int) -> None:
    """Make this process, a child of `parent`, ready to try mutants, on a database of its own on that server."""
    if arm := die_with_parent(signal.SIGKILL, parent=parent):
        arm()
    address = urlsplit(database_url)
    os.environ["DATABASE_URL"] = urlunsplit(address._replace(path=f"/mutants_{os.getpid()}"))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(ROOT)
    for name in _THIRD_PARTY:
        importlib.import_module(name)
    hypothesis.settings.register_profile("mutants", phases=_WITHOUT_SHRINKING, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    gc.freeze()  # a child that collects would copy all of it


def attempt(mutant: Mutant, tests: Sequence[str], *, timeout_seconds: float) -> tuple[Verdict, str]:
    """What the tests make of the mutant, and the end of what they printed."""
    reading, writing = os.pipe()
    arm = die_with_parent(signal.SIGKILL)
    child = os.fork()
    if child == 0:
        if arm:
            arm()
        os.close(reading)
        _run(mutant, tests, writing)
    os.setpgid(child, child)  # as the child does: whoever comes first
    os.close(writing)
    try:
        printed = _read(reading, until=time.monotonic() + timeout_seconds)
    except TimeoutError:
        os.killpg(child, signal.SIGKILL)
        return Verdict.TIMED_OUT, ""
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    return Verdict.KILLED if status else Verdict.SURVIVED, printed


def _read(pipe: int, *, until: float) -> str:
    """All that is printed; the end of it is the child's. Raises TimeoutError."""
    printed = b""
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (piece := os.read(pipe, 65_536)):
            return printed.decode(errors="replace")[-2_000:]
        printed += piece
    raise TimeoutError


def _run(mutant: Mutant, tests: Sequence[str], output: int) -> NoReturn:
    """The child: it ends here, whatever happens."""
    code = 1
    try:
        os.setpgid(0, 0)
        gc.disable()
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        sys.meta_path.insert(0, _Finder(mutant))
        plugins = [part for plugin in _PLUGINS for part in ("-p", plugin)]
        code = int(pytest.main([*_PYTEST, *plugins, *tests], plugins=[_QuickestFirst()]))
        sys.stdout.flush()
    finally:
        os._exit(code)


class _QuickestFirst:
    """Tests without a database come first, where pytest-django has them last."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("django_db") is not None)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the mutant in the place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._path = ROOT / mutant.module
        self._name = mutant.module.removesuffix(".py").replace("/", ".")
        self._source = mutant.source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path))

    def get_source(self, fullname: str) -> str:
        return self._source

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._source, self._path, "exec"), module.__dict__)
