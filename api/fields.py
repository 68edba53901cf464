"""Serializer fields that take exactly what they say: no number for a text, no text for a number, no naive time."""

import datetime
import re
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from core import clock

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_TIME_OF_DAY = re.compile(r"\d\d:\d\d", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Instant(serializers.DateTimeField):
    """An aware instant: ISO 8601 with Z or an offset in, UTC with six digits and Z out."""

    default_error_messages = {"invalid_instant": "{reason}"}

    def to_internal_value(self, value: Any) -> datetime.datetime:
        if not isinstance(value, str):
            self.fail("invalid_instant", reason="must be text, such as 2026-03-01T10:00:00Z")
        text = value.upper()
        try:
            instant = clock.parse_instant(text)
        except ValueError:
            instant = None
        if instant is None or not _RFC_3339.fullmatch(text):
            self.fail("invalid_instant", reason="must be an instant with Z or an offset, such as 2026-03-01T10:00:00Z")
        if instant.year not in clock.YEARS:
            self.fail("invalid_instant", reason=clock.OTHER_YEARS)
        return instant

    def to_representation(self, value: datetime.datetime | None) -> str | None:  # type: ignore[override]
        return None if value is None else clock.iso(value)


class Text(serializers.CharField):
    """Text as it is, blanks and all; NUL and lone surrogates are refused."""

    default_error_messages = {"invalid": "must be text"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)

    def to_internal_value(self, value: Any) -> str:
        if not isinstance(value, str):
            self.fail("invalid")
        return str(super().to_internal_value(value))


class Whole(serializers.IntegerField):
    """A whole number, as a JSON number; a query parameter's digits too."""

    default_error_messages = {"invalid": "must be a whole number"}

    def to_internal_value(self, value: Any) -> int:
        if (
            isinstance(value, str)
            and self.root.context.get("is_query")
            and re.fullmatch(r"-?\d{1,18}", value, re.ASCII)
        ):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail("invalid")
        return int(value)


class Flag(serializers.BooleanField):
    """true or false and nothing that looks like them."""

    default_error_messages = {"invalid": "must be true or false"}

    def to_internal_value(self, value: Any) -> bool:
        if not isinstance(value, bool):
            self.fail("invalid")
        return value


class Id(serializers.UUIDField):
    """A UUID in its usual spelling."""

    default_error_messages = {"invalid": "must be a UUID"}

    def to_internal_value(self, value: Any) -> UUID:
        if not isinstance(value, str) or not _UUID.fullmatch(value):
            self.fail("invalid")
        return UUID(value)


class Day(serializers.DateField):
    """A date of a calendar, such as 2026-03-01."""

    default_error_messages = {"invalid": "must be a date, such as 2026-03-01"}

    def to_internal_value(self, value: Any) -> datetime.date:
        if isinstance(value, str) and _DATE.fullmatch(value):
            try:
                day = datetime.date.fromisoformat(value)
            except ValueError:
                day = None
            if day is not None and day.year in clock.YEARS:
                return day
        raise serializers.ValidationError(self.error_messages["invalid"])


@extend_schema_field({"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$"})
class TimeOfDay(serializers.Field[datetime.time, Any, str, Any]):
    """A time on a wall clock to the minute, such as 09:30."""

    default_error_messages = {"invalid": "must be a time of day, such as 09:30"}

    def to_internal_value(self, value: Any) -> datetime.time:
        if isinstance(value, str) and _TIME_OF_DAY.fullmatch(value):
            try:
                return datetime.time.fromisoformat(value)
            except ValueError:
                pass
        raise serializers.ValidationError(self.error_messages["invalid"])

    def to_representation(self, value: datetime.time) -> str:
        return value.strftime("%H:%M")


class Word(serializers.ChoiceField):
    """One of the words of an enumeration, spelled exactly so."""

    default_error_messages = {"invalid_choice": "must be one of the documented words"}

    def to_internal_value(self, value: Any) -> str:
        if not isinstance(value, str):
            self.fail("invalid_choice", input=value)
        return str(super().to_internal_value(value))
