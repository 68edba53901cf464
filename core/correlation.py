"""One id for everything that a request, a cycle or a consumed message does: on log lines, audit lines and messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

import structlog

from core.ids import new_id

_correlation_id: ContextVar[UUID] = ContextVar("correlation_id")


@contextmanager
def correlated(correlation_id: UUID | None = None, **log_fields: object) -> Iterator[UUID]:
    """Bind the id (a fresh one if none is given), and further stable log fields, for the block."""
    bound = correlation_id or new_id()
    token = _correlation_id.set(bound)
    try:
        with structlog.contextvars.bound_contextvars(correlationId=str(bound), **log_fields):
            yield bound
    finally:
        _correlation_id.reset(token)


def correlation_id() -> UUID:
    """The id in force; outside any `correlated` block a fresh one, so that a row is never without."""
    return _correlation_id.get(None) or new_id()
