"""Waiting for conditions, never for seconds."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    condition: Callable[[], T], what: str = "the condition", *, timeout: float = 10, poll: float = 0.02
) -> T:
    """The first truthy value of `condition`; AssertionError naming `what` when none comes within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not hold within {timeout} s; last value: {value!r}")
        time.sleep(poll)
    return value
