"""Who acts on the service, and what they choose from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import strategies as st

from core.actors import Actor
from tests.factories import OTHER_TENANT, TENANT

Picked = TypeVar("Picked")

ANNA, BORIS, CLARA, INVESTOR, SECOND_INVESTOR, ADMIN, OPERATOR, STRANGER = (UUID(int=n) for n in range(1, 9))
# Where owners work: Clara for two agencies.
PLACES = {
    "Anna": (ANNA, TENANT),
    "Boris": (BORIS, TENANT),
    "Clara": (CLARA, TENANT),
    "Clara elsewhere": (CLARA, OTHER_TENANT),
}
CLIENTS = {
    "investor": Actor.user(INVESTOR),
    "second investor": Actor.user(SECOND_INVESTOR),
    "Anna, who is an owner too": Actor.user(ANNA, tenant_id=TENANT),
    "admin of another agency": Actor.tenant_admin(ADMIN, tenant_id=OTHER_TENANT),
}
ELSEWHERE = {TENANT: OTHER_TENANT, OTHER_TENANT: TENANT}
ZONES = ["Europe/Moscow", "Asia/Almaty"]

places = st.sampled_from(list(PLACES))
clients = st.sampled_from(["investor"] * 5 + list(CLIENTS))
handovers = st.tuples(places, places).filter(lambda pair: PLACES[pair[0]][0] != PLACES[pair[1]][0])
# A part in a record, made an actor by `acting`; the usual ones much more often than intruders.
INTRUDERS = ["owner elsewhere", "admin elsewhere", "client as admin elsewhere", "stranger"]
keepers = st.sampled_from(["owner"] * 15 + ["admin", "operator", "client", *INTRUDERS])
parties = st.sampled_from(["owner"] * 12 + ["client"] * 12 + ["admin", "operator", *INTRUDERS])
numbers = st.integers(0, 6)  # which of those that fit
rarely = st.sampled_from([False] * 4 + [True])
nudges = st.sampled_from([0, 1, -1])  # microseconds from an edge
# What `seen_version` is relative to the stored version; None: the caller does not say.
seen = st.sampled_from([None] * 5 + [0] * 5 + [-1, 1])
reasons = st.sampled_from(["", "Заболел"])
offset_sets = st.one_of(
    st.lists(st.sampled_from([0, 15, 60, 1_440, 2_880]), unique=True, max_size=4),
    st.sampled_from([[60, 1_440], [60, 60], [-1], [40_321], list(range(9))]),
)
starts = st.sampled_from([30, 60, 61, 90, 180, 1_470, 2_880, 3_000, 5_000, 0, -60])
lengths = st.sampled_from([60, 30, 0])


@dataclass(frozen=True)
class Batch:
    """Slots of an hour, in minutes from now and from one to the next."""

    start: int
    count: int
    gap: int
    lead: int
    is_auto: bool


batches = st.builds(
    Batch,
    start=starts,
    count=st.integers(1, 3),
    gap=st.sampled_from([0, 30, -30]),
    lead=st.sampled_from([60, 0, 2_880]),
    is_auto=st.booleans(),
)


def acting(part: str, record: Any) -> Actor:
    owner, tenant = record.owner_user_id, record.tenant_id
    client = getattr(record, "client_user_id", None) or STRANGER
    return {
        "owner": Actor.user(owner, tenant_id=tenant),
        "client": Actor.user(client),
        "admin": Actor.tenant_admin(ADMIN, tenant_id=tenant),
        "operator": Actor.operator(OPERATOR),
        "owner elsewhere": Actor.user(owner, tenant_id=ELSEWHERE[tenant]),
        "admin elsewhere": Actor.tenant_admin(STRANGER, tenant_id=ELSEWHERE[tenant]),
        "client as admin elsewhere": Actor.tenant_admin(client, tenant_id=ELSEWHERE[tenant]),
        "stranger": Actor.user(STRANGER, tenant_id=tenant),
    }[part]


def pick(fitting: Iterable[Picked], number: int) -> Picked:
    """One of these, of which there must be some."""
    listed = list(fitting)
    return listed[number % len(listed)]
