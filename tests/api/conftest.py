"""The API's requests happen at NOON of the factories, unless a test says otherwise."""

import pytest
from django.core.cache import cache

from core import clock
from tests.factories import NOON


@pytest.fixture(autouse=True)
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    cache.clear()
