"""Constraints that several tables share."""

import datetime

from django.db.models import CheckConstraint, Q

_EARLIEST = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
_LATEST = datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC)


def readable_instants(*fields: str, name: str) -> CheckConstraint:
    """No infinity and no year beyond Python's: one such row would break every query that meets it, for all rows."""
    condition = Q()
    for field in fields:
        condition &= Q(**{f"{field}__gte": _EARLIEST, f"{field}__lt": _LATEST})
    return CheckConstraint(condition=condition, name=name)
