"""A consumer that does as it is told, on a topic of its own."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import UUID

from contracts.base import Contract, Instant
from core.ids import new_id
from tests.keep_going import always
from workers.consumer import ConsumedResult, Consumer, Reaction, Received

NOON = datetime.datetime(2030, 3, 14, 12, tzinfo=datetime.UTC)


class Note(Contract):
    """A message for tests; a topic a subclass."""

    KEY_FIELD: ClassVar[str] = "tenant_id"

    number: int
    at: Instant | None = None


def a_topic() -> type[Note]:
    """A contract on a topic that no other test uses."""
    return type("Note", (Note,), {"TOPIC": f"test.note-{new_id()}.v1", "__module__": __name__})


def a_note(contract: type[Note], number: int) -> Note:
    return contract(tenant_id=UUID(int=1), number=number)


Doing = Callable[[Any, Received], None]


def nothing(note: Any, received: Received) -> None:
    """Beside being seen."""


class FakeConsumer(Consumer):
    """Keeps the numbers that it was given, in `seen`, and does with each message as told."""

    name = "fake-consumer"
    metrics_prefix = "fake_consumer"
    group_name = "fake"

    def __init__(self, contract: type[Note], does: Doing = nothing) -> None:
        self._contract = contract
        self._does = does
        self.seen: list[int] = []
        super().__init__()

    def reactions(self) -> Mapping[type[Contract], Reaction]:
        return {self._contract: self._react_to}

    def _react_to(self, note: Note, received: Received) -> None:
        self._does(note, received)
        self.seen.append(note.number)


def read_all(consumer: Consumer, *, limit: int = 1_000, keep_going: Callable[[], bool] = always) -> ConsumedResult:
    """One cycle, which reads until there is nothing more."""
    return consumer.cycle(as_of=NOON, limit=limit, keep_going=keep_going)
