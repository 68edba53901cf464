"""Writing audit lines, in the transaction of the transition that they tell."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from audit.models import Aggregate
from core import sql
from core.actors import Actor
from core.correlation import correlation_id
from core.ids import new_id_text


@dataclass(frozen=True, slots=True)
class Line:
    """One transition; `from_status` is empty for a creation."""

    aggregate: Aggregate
    aggregate_id: UUID
    tenant_id: UUID
    verb: str
    from_status: str
    to_status: str


def record(lines: Iterable[Line], *, actor: Actor, as_of: datetime.datetime) -> None:
    """Append the lines with one statement: who (`actor`), when (`as_of`), under the correlation id in force."""
    rows = [
        {
            "id": new_id_text(),
            "tenant_id": line.tenant_id,
            "aggregate": line.aggregate,
            "aggregate_id": line.aggregate_id,
            "verb": line.verb,
            "from_status": line.from_status,
            "to_status": line.to_status,
        }
        for line in lines
    ]
    if not rows:
        return
    sql.write(
        """
        INSERT INTO audit_log (id, tenant_id, aggregate, aggregate_id, verb, from_status, to_status,
                               actor_kind, actor_user_id, correlation_id, occurred_at)
        SELECT x.id, x.tenant_id, x.aggregate, x.aggregate_id, x.verb, x.from_status, x.to_status, %s, %s, %s, %s
        FROM jsonb_to_recordset(%s::jsonb) AS x(id uuid, tenant_id uuid, aggregate text, aggregate_id uuid, verb text,
                                                from_status text, to_status text)
        """,
        [actor.kind.value, actor.user_id, correlation_id(), as_of, sql.as_json(rows)],
    )
