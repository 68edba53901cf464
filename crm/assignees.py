"""UC-CAL-011 from the CRM: what one owner has open becomes another's."""

import datetime

from django.db.models import Q

from appointments import reassignment
from appointments.reassignment import Reassignment
from contracts.crm import AssigneeChanged
from core.actors import Actor
from crm.models import AssigneeChange


def apply(message: AssigneeChanged, *, as_of: datetime.datetime) -> Reassignment | None:
    """Follow the message, in the caller's transaction; None when it is stale.

    Stale is a revision that was applied, or is older than one that already moved to or from the same owner. Raises
    InvalidField for the same owner twice, Busy.
    """
    applied = AssigneeChange.objects.filter(tenant_id=message.tenant_id, revision__gte=message.revision)
    owner = message.from_owner_user_id
    if applied.filter(Q(revision=message.revision) | Q(from_owner_user_id=owner) | Q(to_owner_user_id=owner)).exists():
        return None
    done = reassignment.hand_over(
        tenant_id=message.tenant_id,
        from_owner_id=message.from_owner_user_id,
        to_owner_id=message.to_owner_user_id,
        actor=Actor.system(),
        as_of=as_of,
    )
    AssigneeChange.objects.create(
        tenant_id=message.tenant_id,
        revision=message.revision,
        from_owner_user_id=message.from_owner_user_id,
        to_owner_user_id=message.to_owner_user_id,
        moved_appointments=len(done.appointment_ids),
        moved_events=len(done.event_ids),
        conflicts=len(done.conflicting_appointment_ids),
        created_at=as_of,
    )
    return done
