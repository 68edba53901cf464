"""When a request lapses, and how many of them one client may have open with one owner."""

import datetime
from uuid import UUID

from django.conf import settings

from core import advisory, sql
from core.errors import Refused

DECISION_TIME = datetime.timedelta(hours=24)


class DeadlineTooNear(Refused):
    """Less than APPOINTMENT_MIN_DECISION_MINUTES would be left for the owner's decision."""

    code = "deadline_too_near"


class TooManyPending(Refused):
    """The client has MAX_PENDING_PER_CLIENT_AND_OWNER requests open with this owner already."""

    code = "too_many_pending"


def deadline(*, bookable_until: datetime.datetime, counted_from: datetime.datetime) -> datetime.datetime:
    """`pending_expires_at`: 24 h after the request, but no later than the slot can be booked."""
    return min(counted_from + DECISION_TIME, bookable_until)


def refuse_too_near(expires_at: datetime.datetime, *, as_of: datetime.datetime) -> None:
    """Raises DeadlineTooNear for a request that would leave the owner less than the configured time."""
    least = settings.ENV.appointment_min_decision_minutes
    if expires_at - as_of < datetime.timedelta(minutes=least):
        raise DeadlineTooNear(f"the request would lapse in less than {least} minutes")


def lock_pending_count(*, client_user_id: UUID, owner_user_id: UUID) -> None:
    """Let one request of this client and owner through at a time; taken before any row, so the cap holds."""
    advisory.lock(f"pending:{client_user_id}:{owner_user_id}")


def refuse_too_many_pending(*, client_user_id: UUID, owner_user_id: UUID) -> None:
    """Raises TooManyPending when one more request would be over the cap; call under `lock_pending_count`."""
    most = settings.ENV.max_pending_per_client_and_owner
    [(count,)] = sql.fetch(
        "SELECT count(*) FROM appointments WHERE status = 'Pending' AND client_user_id = %s AND owner_user_id = %s",
        [client_user_id, owner_user_id],
    )
    if count >= most:
        raise TooManyPending(f"{count} requests of this client to this owner are Pending already", limit=most)
