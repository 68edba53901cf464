"""What every message on Kafka has in common."""

import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from core.clock import iso


def _in_utc(instant: datetime.datetime) -> datetime.datetime:
    try:
        return instant.astimezone(datetime.UTC)
    except OverflowError:
        raise ValueError("is beyond the years 1 to 9999 in UTC") from None


# An aware instant; on the wire UTC with six fraction digits and Z.
Instant = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(iso, return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "format": "date-time", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"},
        mode="serialization",
    ),
]


class Once(StrEnum):
    """What may be told only once: a fact about its subject at all, or about one version of its subject."""

    A_SUBJECT = "a subject"
    A_VERSION = "a version"


class Contract(BaseModel):
    """A message, frozen, of a topic and keyed by a field that the subclass names.

    Fields that are None are absent on the wire; readers ignore unknown fields.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    TOPIC: ClassVar[str]
    KEY_FIELD: ClassVar[str]

    contract_version: Literal[1] = 1
    tenant_id: UUID

    @property
    def key(self) -> str:
        """The Kafka key: messages with one key keep their order."""
        return str(getattr(self, self.KEY_FIELD))

    def to_json(self) -> str:
        """The exact text that is sent: camelCase, absent where None."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class Message(Contract):
    """A fact in the past tense that the calendar tells.

    A subclass names the field that, with the topic (and the aggregate's version where it may happen again), identifies
    the fact.
    """

    SUBJECT_FIELD: ClassVar[str]
    ONCE: ClassVar[Once]

    occurred_at: Instant
    aggregate_version: Annotated[int, Field(ge=1)]

    @property
    def dedup_key(self) -> str:
        """Unique in the outbox: a second telling of the same fact is refused by the database."""
        subject = f"{self.TOPIC}:{getattr(self, self.SUBJECT_FIELD)}"
        return subject if self.ONCE is Once.A_SUBJECT else f"{subject}:{self.aggregate_version}"
