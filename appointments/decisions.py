"""Confirm, decline, cancel, complete, no-show: one change of one appointment by a person."""

import datetime
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from appointments import lifecycle, locks
from appointments.lifecycle import Change
from appointments.locks import Case
from appointments.matrix import Party, Verb
from core.actors import Actor
from core.errors import NotFound, refuse_stale
from pin_calendar.models import refuse_bad_text


@transaction.atomic(durable=True)
def change(
    appointment_id: UUID,
    verb: Verb,
    *,
    actor: Actor,
    as_of: datetime.datetime,
    reason: str = "",
    seen_version: int | None = None,
) -> Change:
    """The verb applied by the actor, with its whole cascade.

    `reason` is the person's own text for a refusal or cancellation; `seen_version` the version they saw, if they say.
    Raises NotFound, VersionConflict, InvalidField, NotYours, NotAllowed, TooLate, TooEarly; Inconsistent for a broken
    state.
    """
    refuse_bad_text("reason", reason)
    case, party = hold(appointment_id, actor=actor, seen_version=seen_version)
    row = lifecycle.permit(verb, case, party=party, as_of=as_of)
    planned = lifecycle.plan(row, case, party=party, as_of=as_of, reason=reason.strip())
    lifecycle.write([planned], actor=actor, as_of=as_of)
    return planned


def hold(
    appointment_id: UUID, *, actor: Actor, seen_version: int | None, also_slot_ids: Sequence[UUID] = ()
) -> tuple[Case, Party]:
    """The appointment, locked with all of its own (and further slots), and the actor's part in it.

    Raises NotFound, also for a stranger, or VersionConflict.
    """
    cases = locks.wait_for([appointment_id], also_slot_ids=also_slot_ids)
    party = lifecycle.party_of(actor, cases[0].appointment) if cases else None
    if party is None:
        raise NotFound(f"there is no appointment {appointment_id}")
    refuse_stale(f"appointment {appointment_id}", version=cases[0].appointment.version, seen=seen_version)
    return cases[0], party
