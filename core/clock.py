"""The only place that reads the system clock.

Entry points (a request, a worker's cycle, a consumed message) call `now()` once and pass the instant down as `as_of`.
"""

import datetime
import functools

# Other years are a slip, and at the ends of the calendar arithmetic fails.
YEARS = range(1970, 9001)
OTHER_YEARS = f"must lie in the years {YEARS.start} to {YEARS.stop - 1}"


def now() -> datetime.datetime:
    """The present instant, aware, in UTC."""
    return datetime.datetime.now(datetime.UTC)


def parse_instant(text: str) -> datetime.datetime:
    """An ISO 8601 instant with `Z` or an offset, in UTC.

    Raises ValueError with a sentence that says what is wrong, also for a naive time.
    """
    try:
        instant = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an ISO 8601 instant, such as 2026-03-01T10:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it with Z or an offset, such as 2026-03-01T10:00:00Z")
    try:
        return instant.astimezone(datetime.UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is not an ISO 8601 instant of the years 1 to 9999 in UTC") from None


def age_seconds(instant: datetime.datetime | None, *, as_of: datetime.datetime) -> float:
    """For how long it has been; 0 for what is ahead, or is not."""
    return max(0.0, (as_of - instant).total_seconds()) if instant else 0.0


def stamp() -> str:
    """The present instant as messages and logs spell it."""
    return _spelled(now())


def iso(instant: datetime.datetime) -> str:
    """The instant as messages and logs spell it: UTC, six fraction digits, Z."""
    # In UTC before it is looked up: of a zone's hour that comes twice, both are equal.
    return _spelled_before(instant.astimezone(datetime.UTC))


def _spelled(instant: datetime.datetime) -> str:
    return instant.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


# A chunk's messages spell few instants many times.
_spelled_before = functools.lru_cache(maxsize=4_096)(_spelled)
