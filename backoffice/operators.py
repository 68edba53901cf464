"""Who an operator is to the audit log: an id made from the admin user's key, so that a line holds no name.

Admin users are therefore never deleted, only deactivated: their id must lead back to them.
"""

from collections.abc import Iterable
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from django.contrib.auth import get_user_model

from core.actors import Actor

_OPERATORS = uuid5(NAMESPACE_URL, "urn:pin:calendar:operators")


def audit_id(user_pk: int) -> UUID:
    """The `actor_user_id` of the audit lines that this admin user leaves."""
    return uuid5(_OPERATORS, str(user_pk))


def actor_of(user: Any) -> Actor:
    """The admin user as who acts."""
    return Actor.operator(audit_id(user.pk))


def names(ids: Iterable[UUID | None]) -> dict[UUID, str]:
    """The log-in names of those of the ids that are operators', with one query, or none where no id is given."""
    wanted = set(ids) - {None}
    if not wanted:
        return {}
    staff = get_user_model()._default_manager.filter(is_staff=True).values_list("pk", "username")
    known = {audit_id(pk): username for pk, username in staff}
    return {id_: known[id_] for id_ in wanted if id_ in known}


def key_of(audit_id_: UUID) -> int | None:
    """The key of the admin user with that audit id."""
    keys = get_user_model()._default_manager.values_list("pk", flat=True)
    return next((pk for pk in keys if audit_id(pk) == audit_id_), None)
