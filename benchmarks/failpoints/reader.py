"""A reader that hands out records from memory, from the first on in each life: as Kafka does to who has noted nothing.

Joining a group beside its dead member takes seconds, and the sweep has hundreds of deaths; one path reads Kafka itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from contracts.base import Contract
from core.ids import new_id
from workers.records import Record


class MemoryReader:
    """In place of `workers.reader.Reader`."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = list(records)

    def fetch(self, limit: int, *, wait_seconds: float) -> list[Record]:
        """All of them, once; there is nothing to wait for."""
        records, self._records = self._records[:limit], self._records[limit:]
        return records

    @property
    def is_at_end(self) -> bool:
        return not self._records

    def mark_done(self, record: Record) -> None:
        """Nothing is remembered: that is the point."""

    def settle(self, undone: Sequence[Record]) -> None:
        """What was fetched and not done will be fetched again."""
        self._records = [*undone, *self._records]

    def lag(self) -> Counter[str]:
        return Counter()

    def close(self) -> None:
        """There is nobody to leave."""


def records_of(*messages: Contract) -> list[Record]:
    """The messages as they would be on a partition."""
    return [
        Record(
            topic=message.TOPIC,
            partition=0,
            offset=offset,
            key=message.key.encode(),
            value=message.to_json().encode(),
            headers={"ce_id": str(new_id()).encode(), "ce_correlationid": str(new_id()).encode()},
        )
        for offset, message in enumerate(messages)
    ]
