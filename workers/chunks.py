"""Items worked on several a transaction, in which a failing item never takes others with it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar
from uuid import UUID

from django.db import transaction

from core import logs, sql
from core.database import is_cancelled
from workers.job import KeepGoing, is_infrastructure_error

log = logs.get(__name__)

RETRIES_A_CYCLE = 50

Item = TypeVar("Item")
Change = TypeVar("Change")


class Chunks(ABC, Generic[Item, Change]):
    """One cycle's work: claim and lock a chunk, plan each item, write all of them, commit.

    An item that cannot be planned is left out. Where the write fails, the chunk is rolled back and its halves are
    tried, down to the single item at fault. Failed items are logged, counted and left for the next cycle, which tries
    them after the others (`retry_failed`), so that they keep nobody waiting. Where `keep_going` says no meanwhile, what
    is not yet isolated is `left` as it is.
    """

    id_name: ClassVar[str]
    """The item's id on the log line `item failed`."""

    def __init__(self, *, keep_going: KeepGoing, failed_before: Sequence[UUID]) -> None:
        self.keep_going = keep_going
        self.failed_before = tuple(failed_before)
        self.untried = list(failed_before)
        self.failed: list[UUID] = []
        self.left: list[UUID] = []

    @abstractmethod
    def id_of(self, item: Item) -> UUID:
        """What the item is known by."""

    @abstractmethod
    def claim_again(self, ids: Sequence[UUID]) -> list[Item]:
        """Lock those of these items that are still due and can be had without waiting."""

    @abstractmethod
    def plan(self, item: Item) -> Change:
        """What is to become of a locked item. Raises for one in a broken state."""

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> None:
        """Write the changes, in the transaction that holds the locks."""

    @abstractmethod
    def tell(self, change: Change) -> None:
        """Log the change, in words that are true once it is committed: the line is written then."""

    @abstractmethod
    def done(self, change: Change) -> None:
        """Count a change that is committed."""

    def attempt(self, claim: Callable[[], list[Item]]) -> None:
        """One transaction over what `claim` locks. Raises only when the infrastructure is at fault."""
        items: list[Item] = []
        broken: list[tuple[Item, Exception]] = []
        changes: list[Change] = []
        told = logs.Held()
        try:
            with transaction.atomic(durable=True):
                items = claim()
                for item in items:
                    try:
                        changes.append(self.plan(item))
                    except Exception as error:  # whatever is wrong with one item must not hurt the next
                        broken.append((item, error))
                if changes:
                    with sql.batched():
                        self.write(changes)
                        with told:  # the server is still at work
                            for change in changes:
                                self.tell(change)
        except Exception as error:
            is_no_items_fault = not items or is_infrastructure_error(error)
            if is_no_items_fault or (is_cancelled(error) and not self.keep_going()):
                raise
            self._isolate(items, error)
            return
        for change in changes:
            self.done(change)
        told.release()
        for item, reason in broken:
            self._fail(item, reason)

    def retry_failed(self, *, while_: Callable[[], bool]) -> None:
        """Try what failed in the last cycle, one at a time, at most 50 of them and no longer than `while_` says."""
        for item_id in self.failed_before[:RETRIES_A_CYCLE]:
            if not (while_() and self.keep_going()):
                return
            self.untried.remove(item_id)
            self.attempt(partial(self.claim_again, [item_id]))

    @property
    def to_retry(self) -> tuple[UUID, ...]:
        """What the next cycle is to try after the others, longest untried first."""
        return (*self.untried, *self.failed)

    def _isolate(self, items: Sequence[Item], error: Exception) -> None:
        if len(items) == 1:
            self._fail(items[0], error)
            return
        ids = [self.id_of(item) for item in items]
        middle = len(ids) // 2
        for half in (ids[:middle], ids[middle:]):
            if self.keep_going():
                self.attempt(partial(self.claim_again, half))
            else:
                self.left += half

    def _fail(self, item: Item, error: Exception) -> None:
        self.failed.append(self.id_of(item))
        log.error("item failed", **{self.id_name: str(self.id_of(item))}, exc_info=error)
