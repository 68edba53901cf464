"""Working the deliveries: who has one leases it, sends outside of any transaction, and notes what came of it.

Whoever dies in between leaves a lease that runs out; the repeat carries the same identity.
"""

import datetime
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings
from django.db import transaction

from core import clock, logs
from core.correlation import correlated
from core.tracing import span
from notifications import channels, recording, rendering
from notifications.channels import Channel, Rejected, Unreachable
from notifications.models import Delivery, Recipient, Status
from workers.job import KeepGoing, is_infrastructure_error

log = logs.get(__name__)

LEASE = datetime.timedelta(minutes=5)
_LONGEST_BACKOFF_SECONDS = 3_600.0
_LONGEST_OUTAGE_SECONDS = 60.0
_LONGEST_ERROR = 1_000
_NOTED = ("status", "attempts", "next_attempt_at", "error", "sent_at", "updated_at")


class Watch(Protocol):
    """Who counts what the sender does."""

    def settled(self, delivery: Delivery, *, outcome: str) -> None:
        """An attempt came to this: sent, retried, parked, or what the delivery was found to be."""

    def unreachable(self, channel: str) -> None:
        """A channel is away."""


@dataclass
class _Outage:
    """A channel that is left alone until `ends_at`."""

    failures: int = 0
    ends_at: float = 0.0


class Sender:
    """The channels of one process. What is away is left alone for a while, and no delivery pays for it."""

    def __init__(self, *, watch: Watch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._monotonic = monotonic
        self._outages: dict[str, _Outage] = {}

    def send_due(self, *, limit: int, keep_going: KeepGoing) -> Counter[str]:
        """Send what is due, oldest first, at most `limit`; how many came to what, an outage a channel included."""
        working = {name: make() for name, make in channels.configured().items() if self._is_up(name)}
        tally: Counter[str] = Counter()
        try:
            while working and sum(tally.values()) < limit and keep_going():
                delivery = _lease(list(working), as_of=clock.now())
                if delivery is None:
                    break
                name = delivery.channel
                with correlated(delivery.correlation_id), span("send delivery", delivery_id=str(delivery.id)):
                    outcome = self._send(delivery, through=working[name])
                tally[outcome] += 1
                if outcome == "unreachable":
                    working.pop(name).close()
        finally:
            for channel in working.values():
                channel.close()
        return tally

    def _is_up(self, name: str) -> bool:
        return name not in self._outages or self._monotonic() >= self._outages[name].ends_at

    def _send(self, delivery: Delivery, *, through: Channel) -> str:
        to, as_of = Recipient.objects.filter(user_id=delivery.recipient_user_id).first(), clock.now()
        try:
            if to is None:
                return self._settle(delivery, Status.NO_CHANNEL)
            if (obstacle := _obstacle(delivery, to, as_of=as_of)) is not None:
                return self._settle(delivery, obstacle)
            through.send(rendering.render(delivery, to=to, as_of=as_of), to=to)
        except Unreachable as error:
            return self._leave_alone(delivery, error)
        except Rejected as error:
            outcome = self._retry_or_park(delivery, str(error), is_permanent=error.is_permanent)
        except Exception as error:  # one that can't be read, rendered or sent must not hold up the others
            if is_infrastructure_error(error):
                raise
            # The class alone: its text may hold an address.
            log.error("delivery failed", delivery_id=str(delivery.id), error=type(error).__name__)
            return self._retry_or_park(delivery, type(error).__name__, is_permanent=False)
        else:
            outcome = self._settle(delivery, Status.SENT)
        self._outages.pop(delivery.channel, None)
        return outcome

    def _leave_alone(self, delivery: Delivery, error: Unreachable) -> str:
        outage = self._outages.setdefault(delivery.channel, _Outage())
        outage.failures += 1
        pause = min(2.0 ** min(outage.failures - 1, 16), _LONGEST_OUTAGE_SECONDS) * random.uniform(0.5, 1.0)  # noqa: S311
        outage.ends_at = self._monotonic() + pause
        _note(delivery, Status.PENDING, next_attempt_at=clock.now(), attempts=delivery.attempts - 1)
        self._watch.unreachable(delivery.channel)
        log.warning("channel unreachable", channel=delivery.channel, error=str(error), retry_seconds=round(pause, 1))
        return "unreachable"

    def _retry_or_park(self, delivery: Delivery, error: str, *, is_permanent: bool) -> str:
        env = settings.ENV
        if is_permanent or delivery.attempts >= env.notifications_max_attempts:
            return self._settle(delivery, Status.PARKED, error=error)
        pause = min(env.notifications_retry_seconds * 2.0 ** (delivery.attempts - 1), _LONGEST_BACKOFF_SECONDS)
        next_attempt_at = clock.now() + datetime.timedelta(seconds=pause * random.uniform(0.5, 1.0))  # noqa: S311
        is_noted = _note(delivery, Status.PENDING, next_attempt_at=next_attempt_at, error=error)
        return self._tell(delivery, "retried") if is_noted else _tell_lost(delivery)

    def _settle(self, delivery: Delivery, status: Status, *, error: str = "") -> str:
        is_noted = _note(delivery, status, next_attempt_at=delivery.next_attempt_at, error=error)
        return self._tell(delivery, status.value) if is_noted else _tell_lost(delivery)

    def _tell(self, delivery: Delivery, outcome: str) -> str:
        self._watch.settled(delivery, outcome=outcome)
        say = log.error if outcome == Status.PARKED else log.info
        say(
            f"delivery {outcome}",
            delivery_id=str(delivery.id),
            subject_id=str(delivery.subject_id),
            kind=delivery.kind,
            channel=delivery.channel,
            attempts=delivery.attempts,
        )
        return outcome


@transaction.atomic
def _lease(names: list[str], *, as_of: datetime.datetime) -> Delivery | None:
    """The next delivery due, out of others' reach for LEASE."""
    due = Delivery.objects.filter(status=Status.PENDING, next_attempt_at__lte=as_of, channel__in=names)
    delivery = due.order_by("next_attempt_at", "id").select_for_update(skip_locked=True).first()
    if delivery is not None:
        delivery.attempts += 1
        delivery.next_attempt_at = as_of + LEASE
        delivery.save(update_fields=["attempts", "next_attempt_at"])
    return delivery


def _obstacle(delivery: Delivery, to: Recipient, *, as_of: datetime.datetime) -> Status | None:
    """What became true since the delivery was recorded, so that it is not to be sent."""
    if not to.is_active:
        return Status.INACTIVE
    if delivery.channel not in channels.of(to):
        return Status.NO_CHANNEL
    return Status.STALE if recording.is_stale(rendering.message_of(delivery), as_of=as_of) else None


def _note(
    delivery: Delivery,
    status: Status,
    *,
    next_attempt_at: datetime.datetime,
    attempts: int | None = None,
    error: str = "",
) -> bool:
    """False when the delivery is another's by now: its attempts, which rise with each lease, tell.

    That it was sent is noted all the same, whatever the other has noted, so that it is sent no more.
    """
    as_of = clock.now()
    row = Delivery.objects.filter(id=delivery.id)
    if status is Status.SENT:
        ours = row.exclude(status=Status.SENT)
    else:
        ours = row.filter(status=Status.PENDING, attempts=delivery.attempts)
    delivery.attempts = delivery.attempts if attempts is None else attempts
    delivery.status = status
    delivery.next_attempt_at = next_attempt_at
    delivery.error = error[:_LONGEST_ERROR]
    delivery.sent_at = as_of if status is Status.SENT else None
    delivery.updated_at = as_of
    return bool(ours.update(**{name: getattr(delivery, name) for name in _NOTED}))


def _tell_lost(delivery: Delivery) -> str:
    log.warning("delivery lease lost", delivery_id=str(delivery.id), attempts=delivery.attempts)
    return "lost"
