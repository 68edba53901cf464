"""Appointments that a reassignment by the CRM left behind: a person deals with them, and says so here."""

import datetime
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from appointments.models import ReassignmentConflict
from audit import log as audit_log
from audit.log import Line
from audit.models import Aggregate
from core import sql
from core.actors import Actor, ActorKind
from core.errors import NotFound, Refused


class AlreadyResolved(Refused):
    code = "already_resolved"


@transaction.atomic(durable=True)
def resolve(conflict_id: UUID, *, actor: Actor, as_of: datetime.datetime) -> ReassignmentConflict:
    """Note that the conflict is dealt with; the appointment is not touched.

    Raises NotFound for whom it is not to decide, AlreadyResolved.
    """
    conflict = ReassignmentConflict.objects.select_for_update().filter(id=conflict_id).first()
    if (
        conflict is None
        or actor.kind is ActorKind.USER
        or not actor.acts_for_owner(conflict.from_owner_user_id, conflict.tenant_id)
    ):
        raise NotFound(f"there is no conflict {conflict_id}")
    if conflict.resolved_at is not None:
        raise AlreadyResolved(f"conflict {conflict_id} is resolved already")
    conflict.resolved_at = as_of
    conflict.save(update_fields=["resolved_at"])
    audit_log.record([_line(conflict.id, conflict.tenant_id)], actor=actor, as_of=as_of)
    return conflict


def resolve_of(appointment_ids: Sequence[UUID], *, as_of: datetime.datetime) -> list[Line]:
    """Resolve the open conflicts of appointments that move after all, in the caller's transaction; the audit lines."""
    resolved = sql.fetch(
        """
        UPDATE reassignment_conflicts SET resolved_at = %s WHERE appointment_id = ANY(%s) AND resolved_at IS NULL
        RETURNING id, tenant_id
        """,
        [as_of, list(appointment_ids)],
    )
    return [_line(conflict_id, tenant_id) for conflict_id, tenant_id in resolved]


def _line(conflict_id: UUID, tenant_id: UUID) -> Line:
    return Line(Aggregate.CONFLICT, conflict_id, tenant_id, "resolve", "Open", "Resolved")
