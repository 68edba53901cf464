"""Instants as people read them: local to the event, with its zone and that day's UTC offset, in their language."""

import datetime
from zoneinfo import ZoneInfo

from django.utils import dateformat, translation

from core import zones


def when(instant: datetime.datetime, *, zone: str, locale: str) -> str:
    """`четверг, 5 марта 2026 г., 10:00 (Europe/Riga, UTC+02:00)`."""
    local = _local(instant, zone)
    with translation.override(locale):
        if locale == "ru":
            day = f"{dateformat.format(local, 'l').lower()}, {dateformat.format(local, 'j E Y')} г."
        else:
            day = dateformat.format(local, "l, j F Y")
    return f"{day}, {local:%H:%M} ({_zone(local)})"


def short(instant: datetime.datetime, *, zone: str, locale: str) -> str:
    """`5 марта, 10:00`, for a subject line."""
    local = _local(instant, zone)
    with translation.override(locale):
        day = dateformat.format(local, "j E" if locale == "ru" else "j F")
    return f"{day}, {local:%H:%M}"


def _local(instant: datetime.datetime, zone: str) -> datetime.datetime:
    return instant.astimezone(ZoneInfo(zones.canonical(zone)))


def _zone(local: datetime.datetime) -> str:
    offset = f"{local:%z}"
    return f"{local.tzinfo}, UTC{offset[:3]}:{offset[3:5]}"
