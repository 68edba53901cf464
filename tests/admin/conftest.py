"""Two people of the back office, and the clock at NOON."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from core import clock
from ops import groups
from tests.factories import NOON


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)


def _staff(name: str, group: str) -> User:
    groups.ensure()
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name=group))
    return user


@pytest.fixture
def olga(db: Any) -> User:
    """An operator."""
    return _staff("olga", groups.OPERATORS)


@pytest.fixture
def operator(olga: User) -> Client:
    """Olga's browser."""
    client = Client()
    client.force_login(olga)
    return client


@pytest.fixture
def viewer(db: Any) -> Client:
    """The browser of one who may only look."""
    client = Client()
    client.force_login(_staff("viktor", groups.VIEWERS))
    return client
