"""Types of command line flags: what they refuse, they refuse with a sentence, before which argparse names the flag."""

import argparse
import datetime
import math

from core import clock

_LONGEST_SECONDS = 86_400
_LARGEST_BATCH = 100_000


def seconds(text: str) -> float:
    """A number above 0, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most {_LONGEST_SECONDS}, not {text!r}")
    return value


def batch_size(text: str) -> int:
    """A whole number of items above 0."""
    return whole(text, least=1, most=_LARGEST_BATCH)


def port(text: str) -> int:
    """A TCP port; 0 is off."""
    return whole(text, least=0, most=65_535)


def instant(text: str) -> datetime.datetime:
    """An aware instant, as `core.clock.parse_instant` reads it."""
    try:
        return clock.parse_instant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole(text: str, *, least: int, most: int) -> int:
    """A whole number between two bounds, for the flags of single workers."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, not {text!r}")
    return value
