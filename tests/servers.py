"""Pytest plugin: PostgreSQL and a broker for the session, before Django reads its settings.

Loaded by `-p tests.servers` in pyproject.toml, since a conftest.py would come after pytest-django. Servers that
DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS name are used instead, each on its own.
"""

import os

import pytest

from dev.servers import Servers

_SERVERS = pytest.StashKey[Servers]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start what the environment does not name, and name it there; it stops with the session in any case."""
    servers = Servers("test", fast=True)
    early_config.stash[_SERVERS] = servers
    early_config.add_cleanup(servers.close)
    os.environ.update(servers.start())


def of(config: pytest.Config) -> Servers:
    """The session's servers; `postgres` and `kafka` are None where the environment names others."""
    return config.stash[_SERVERS]
