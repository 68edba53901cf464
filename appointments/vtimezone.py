"""Zones as iCalendar spells them; those that the library makes begin DST an hour late."""

import datetime
import functools
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from icalendar import Timezone, TimezoneDaylight, TimezoneStandard

_DAY = datetime.timedelta(days=1)
_SECOND = datetime.timedelta(seconds=1)
_ZERO = datetime.timedelta(0)


@functools.lru_cache(maxsize=1_000)
def vtimezone(name: str, *, first_year: int, last_year: int) -> Timezone:
    """The zone with each of its changes in these years; only for reading, since it is kept."""
    zone = ZoneInfo(name)
    begin = datetime.datetime(first_year, 1, 1, tzinfo=datetime.UTC)
    end = datetime.datetime(last_year + 1, 1, 1, tzinfo=datetime.UTC)
    spelled = Timezone()
    spelled.add("tzid", name)
    spelled.add_component(_observance(begin, zone, former=_offset(begin, zone)))
    for change in _changes(zone, begin=begin, end=end):
        spelled.add_component(_observance(change, zone, former=_offset(change - _SECOND, zone)))
    return spelled


def is_ambiguous(instant: datetime.datetime, zone: ZoneInfo) -> bool:
    """Whether the wall clock shows this time twice, so that it does not tell the instant."""
    local = instant.astimezone(zone)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def _changes(zone: ZoneInfo, *, begin: datetime.datetime, end: datetime.datetime) -> Iterator[datetime.datetime]:
    """The first instants of new offsets."""
    day = begin
    while day < end:
        before, after = day, day + _DAY
        if _offset(before, zone) != _offset(after, zone):
            while after - before > _SECOND:
                middle = (before + (after - before) / 2).replace(microsecond=0)
                if _offset(middle, zone) == _offset(before, zone):
                    before = middle
                else:
                    after = middle
            yield after
        day += _DAY


def _observance(
    since: datetime.datetime, zone: ZoneInfo, *, former: datetime.timedelta
) -> TimezoneStandard | TimezoneDaylight:
    local = since.astimezone(zone)
    observance = TimezoneDaylight() if local.dst() else TimezoneStandard()
    observance.add("dtstart", since.replace(tzinfo=None) + former)
    observance.add("tzoffsetfrom", former)
    observance.add("tzoffsetto", _offset(since, zone))
    observance.add("tzname", local.tzname())
    return observance


def _offset(instant: datetime.datetime, zone: ZoneInfo) -> datetime.timedelta:
    return instant.astimezone(zone).utcoffset() or _ZERO
