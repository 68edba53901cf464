"""The floor: the id below which the queue has nothing to publish any more, so that polls skip what has been deleted.

Ids are drawn before commit, so a lower id may appear later; a floor that only follows the published ids loses it. Here
the floor passes an id only when every transaction that could still commit a lower one has ended:

* `max_id` was committed when it was read, so whoever draws a lower id had drawn it by then, and owned an xid by then,
  since `publish` refuses transactions without one;
* `next_xid` was assigned after that, so it is above all those xids. (The snapshot's own xmax would not do: it is the
  xid after the last one that has *ended*, and transactions with higher xids may already run.)
* once the oldest running xid (pg_snapshot_xmin) has reached `next_xid`, all of them have ended, and what they committed
  is seen by every later read.

A transaction that only reads has no xid and holds nothing up; one that writes for hours does, until it ends.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """A committed id, and an xid that was assigned after it was seen."""

    max_id: int
    next_xid: int


class Floor:
    """Queue rows up to `id` need not be looked at."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.id = 0
        self._monotonic = monotonic
        self._settled_id = 0
        self._awaited: Horizon | None = None
        self._after_it: Horizon | None = None
        self._awaited_since = 0.0

    @property
    def is_waiting(self) -> bool:
        """True while a horizon has not been reached, so that `settle` wants to be asked."""
        return self._awaited is not None

    @property
    def held_seconds(self) -> float:
        """How long transactions that are still running have held the floor."""
        return self._monotonic() - self._awaited_since if self._awaited else 0.0

    def aim_for(self, horizon: Horizon) -> None:
        """Wait for the horizon, after the one awaited already: always the newest would never come."""
        if self._awaited:
            self._after_it = horizon
        else:
            self._awaited, self._awaited_since = horizon, self._monotonic()

    def settle(self, xmin: int) -> None:
        """`xmin`, of a snapshot that is older than the next read's, is the oldest xid that was still running."""
        while self._awaited and xmin >= self._awaited.next_xid:
            self._settled_id = max(self._settled_id, self._awaited.max_id)
            self._awaited, self._after_it, self._awaited_since = self._after_it, None, self._monotonic()

    def follow(self, lowest_unpublished_id: int | None) -> None:
        """A read above the floor has found this id first, or nothing."""
        settled = self._settled_id
        self.id = settled if lowest_unpublished_id is None else min(settled, lowest_unpublished_id - 1)

    def reset(self) -> None:
        """Look at everything once: a shard was gained, and rows of it may be anywhere."""
        self.id = 0
