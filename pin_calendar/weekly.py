"""A weekly pattern over a range of dates: 10:00 on the owner's wall clock stays 10:00, whatever DST does."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from core import zones
from core.errors import InvalidField
from pin_calendar.models import DEFAULT_LEAD_TIME_MINUTES
from pin_calendar.publishing import Draft

MAX_DAYS = 366
MAX_SLOTS = 500
_DAY = datetime.timedelta(days=1)


class NonexistentLocalTime(InvalidField):
    """Clocks jump over this time on that day."""

    code = "nonexistent_local_time"


class AmbiguousLocalTime(InvalidField):
    """Clocks show this time twice on that day, and `fold` does not say which is meant."""

    code = "ambiguous_local_time"


@dataclass(frozen=True, slots=True)
class Window:
    """A slot on each of these weekdays (1 is Monday). An end of 00:00 is midnight, the end of the day.

    `fold` says which of two equal times is meant where clocks are put back: 0 the first, 1 the second.
    """

    weekdays: Sequence[int]
    start_time: datetime.time
    end_time: datetime.time
    fold: int | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """The windows repeat every week from the first to the last date, both included."""

    from_date: datetime.date
    to_date: datetime.date
    time_zone: str
    windows: Sequence[Window]
    min_lead_time_minutes: int = DEFAULT_LEAD_TIME_MINUTES
    auto_confirm: bool = False

    def drafts(self, *, as_of: datetime.datetime) -> list[Draft]:
        """The pattern's slots, for `publishing.publish`.

        Raises InvalidField, NonexistentLocalTime or AmbiguousLocalTime for the first that cannot be.
        """
        zone = ZoneInfo(zones.checked(self.time_zone))
        days = (self.to_date - self.from_date).days + 1
        if not 1 <= days <= MAX_DAYS:
            raise InvalidField("to_date", f"must be from_date or up to {MAX_DAYS - 1} days later")
        drafts = []
        for position, window in enumerate(self.windows):
            for draft in self._drafts_of(window, f"windows/{position}", days=days, zone=zone):
                if draft.start_at <= as_of:
                    raise InvalidField("from_date", f"must be later: {draft.start_at.astimezone(zone)} is not ahead")
                drafts.append(draft)
                if len(drafts) > MAX_SLOTS:
                    raise InvalidField("windows", f"must not make more than {MAX_SLOTS} slots")
        if not drafts:
            raise InvalidField("windows", "make no slot between from_date and to_date")
        return drafts

    def _drafts_of(self, window: Window, field: str, *, days: int, zone: ZoneInfo) -> Iterator[Draft]:
        ends_at_midnight = window.end_time == datetime.time()
        if not ends_at_midnight and window.end_time <= window.start_time:
            raise InvalidField(f"{field}/end_time", "must be after start_time")
        for day in (self.from_date + n * _DAY for n in range(days)):
            if day.isoweekday() not in window.weekdays:
                continue
            last_day = day + _DAY if ends_at_midnight else day
            yield Draft(
                start_at=_instant(day, window.start_time, zone, window.fold, field=f"{field}/start_time"),
                end_at=_instant(last_day, window.end_time, zone, window.fold, field=f"{field}/end_time"),
                time_zone=zone.key,
                min_lead_time_minutes=self.min_lead_time_minutes,
                auto_confirm=self.auto_confirm,
            )


def _instant(
    day: datetime.date, time: datetime.time, zone: ZoneInfo, fold: int | None, *, field: str
) -> datetime.datetime:
    """The instant at which the wall clock of the zone shows that time."""
    first, second = (datetime.datetime.combine(day, time.replace(fold=n), tzinfo=zone) for n in (0, 1))
    shown = f"{day} {time:%H:%M} in {zone.key}"
    if first.astimezone(datetime.UTC).astimezone(zone).replace(tzinfo=None, fold=0) != first.replace(tzinfo=None):
        raise NonexistentLocalTime(field, f"{shown} does not exist: clocks are put forward over it")
    if first.utcoffset() != second.utcoffset() and fold is None:
        raise AmbiguousLocalTime(field, f"{shown} comes twice: fold must say which is meant, 0 or 1")
    return (second if fold else first).astimezone(datetime.UTC)
