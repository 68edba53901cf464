"""A record of Kafka as a consumer gets it, and its message read from it."""

from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from pydantic import ValidationError

from contracts.base import Contract

Partition = tuple[str, int]
Read = TypeVar("Read", bound=Contract)


class Unreadable(Exception):
    """The record is not what its topic promises. The sentence names fields, never values: they may be personal."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """As it was on the topic. The headers are the last of each name."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]

    @classmethod
    def of(cls, message: Any) -> "Record":
        """From what confluent_kafka hands out; one without an error."""
        return cls(
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            key=message.key(),
            value=message.value(),
            headers={name: value or b"" for name, value in message.headers() or []},
        )

    @property
    def place(self) -> Partition:
        return self.topic, self.partition

    @property
    def message_id(self) -> UUID:
        """The same for each delivery of a message. Raises Unreadable without a usable `ce_id`."""
        if self.known_id is None:
            raise Unreadable("header ce_id: no UUID")
        return self.known_id

    @property
    def known_id(self) -> UUID | None:
        """`message_id`, or None."""
        return self._uuid("ce_id")

    @property
    def correlation_id(self) -> UUID | None:
        return self._uuid("ce_correlationid")

    @property
    def traceparent(self) -> str | None:
        return self._text("traceparent")

    def read(self, contract: type[Read]) -> Read:
        """The message. Raises Unreadable."""
        try:
            return contract.model_validate_json(self.value or b"")
        except ValidationError as error:
            raise Unreadable("; ".join(map(_fault, error.errors(include_input=False, include_url=False)))) from None

    def _text(self, header: str) -> str | None:
        return self.headers.get(header, b"").decode("ascii", "replace") or None

    def _uuid(self, header: str) -> UUID | None:
        try:
            return UUID(self._text(header))
        except (ValueError, TypeError):
            return None


def _fault(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "value"
    return f"{where}: {error['type']}"
