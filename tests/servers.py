"""Pytest plugin: PostgreSQL and a broker for the session, before Django reads its settings.

Loaded by `-p tests.servers` in pyproject.toml, since a conftest.py would come after pytest-django. Servers that
DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS name are used instead, each on its own.
"""

import os
import signal

import pytest

from dev.servers import Servers

_SERVERS = pytest.StashKey[Servers]()
_STARTED_BY_US = "PYTEST_SERVERS"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start what the environment does not name, and name it there; it stops with the session in any case.

    A process of pytest-xdist inherits the names of its parent's servers; it forgets them and starts its own, as tests
    stop and restart servers.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that runs us in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # or the tests' children would ignore it too
    for name in os.environ.pop(_STARTED_BY_US, "").split():
        os.environ.pop(name, None)
    servers = Servers("test", fast=True)
    early_config.stash[_SERVERS] = servers
    early_config.add_cleanup(servers.close)
    started = servers.start()
    os.environ.update(started, **{_STARTED_BY_US: " ".join(started)})


def of(config: pytest.Config) -> Servers:
    """The session's servers; `postgres` and `kafka` are None where the environment names others."""
    return config.stash[_SERVERS]
