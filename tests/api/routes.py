"""Every route of the API, read from the router, and a sample request for each, written down by hand."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from appointments import feeds
from core.actors import Actor
from tests.api.callers import PERMISSIONS, Caller, an_admin, client, owner
from tests.factories import (
    DAY,
    HOUR,
    NOON,
    AppointmentFactory,
    EventFactory,
    SlotFactory,
    an_open_appointment,
    owner_of,
)

SLOTS, DECIDE, EVENTS, REASSIGN = PERMISSIONS
DOCUMENTATION = {"GET schema", "GET docs"}
START = (NOON + DAY).isoformat()
END = (NOON + DAY + HOUR).isoformat()


def all_routes() -> set[str]:
    """`METHOD path` of every route below /api/v1/."""
    [resolver] = [pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "api/v1/"]
    return {
        f"{method.upper()} {path}"
        for path, view in _views(resolver)
        for method in view.cls.http_method_names
        if method not in ("head", "options") and hasattr(view.cls, method)
    }


def _views(node: URLPattern | URLResolver, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, URLResolver):
        for inner in node.url_patterns:
            yield from _views(inner, path if str(node.pattern) == "api/v1/" else f"{path}{node.pattern}")
    else:
        yield f"{path}{node.pattern}", node.callback


@dataclass(frozen=True)
class Sample:
    """A request that succeeds for `caller`, on records made for it."""

    path: str
    caller: Caller
    body: Any = None
    record_id: str = ""


@dataclass(frozen=True)
class Route:
    """`permission` None is any token. `of_a_record` routes answer 404 to strangers; `lists` show them nothing.

    `queries` is the number of statements, the savepoints included that stand for transactions in a test.
    """

    make: Callable[[], Sample]
    status: int = 200
    permission: str | None = None
    of_a_record: bool = False
    lists: bool = False
    is_public: bool = False
    queries: int = 0


def _of_slot(suffix: str = "", body: Any = None) -> Callable[[], Sample]:
    def make() -> Sample:
        slot = SlotFactory.create()
        return Sample(f"slots/{slot.id}{suffix}", owner(slot, permissions=[SLOTS]), body, str(slot.id))

    return make


def _of_event(suffix: str = "", body: Any = None) -> Callable[[], Sample]:
    def make() -> Sample:
        event = EventFactory.create()
        return Sample(f"events/{event.id}{suffix}", owner(event, permissions=[EVENTS]), body, str(event.id))

    return make


def _of_appointment(suffix: str = "", body: Any = None, **fields: Any) -> Callable[[], Sample]:
    def make() -> Sample:
        appointment = an_open_appointment(**fields)
        caller = owner(appointment, permissions=[DECIDE])
        return Sample(f"appointments/{appointment.id}{suffix}", caller, body, str(appointment.id))

    return make


def _started(suffix: str) -> Callable[[], Sample]:
    return _of_appointment(suffix, status="Confirmed", start_at=NOON)


def _by_client(suffix: str = "", body: Any = None) -> Callable[[], Sample]:
    def make() -> Sample:
        appointment = an_open_appointment()
        return Sample(f"appointments/{appointment.id}{suffix}", client(appointment), body, str(appointment.id))

    return make


def _reschedule() -> Sample:
    appointment = an_open_appointment()
    other = SlotFactory.create(owner_user_id=appointment.owner_user_id, start_at=NOON + 4 * DAY)
    body = {"slotId": str(other.id)}
    return Sample(f"appointments/{appointment.id}/reschedule", client(appointment), body, str(appointment.id))


def _showcase() -> Sample:
    slot = SlotFactory.create()
    return Sample("slots", Caller(token=""), record_id=str(slot.id))


def _own_slots() -> Sample:
    slot = SlotFactory.create()
    return Sample("slots/mine", owner(slot, permissions=[SLOTS]), record_id=str(slot.id))


def _own_appointments() -> Sample:
    appointment = an_open_appointment()
    return Sample("appointments", owner(appointment, permissions=[]), record_id=str(appointment.id))


def _own_events() -> Sample:
    event = EventFactory.create()
    return Sample("events", owner(event, permissions=[EVENTS]), record_id=str(event.id))


def _book() -> Sample:
    slot = SlotFactory.create()
    return Sample(f"slots/{slot.id}/book", Caller(tenant_id=None, permissions=()), record_id=str(slot.id))


def _feed() -> Sample:
    event = EventFactory.create()
    token = feeds.issue(actor=owner_of(event), shows_owned=True, as_of=NOON)
    return Sample(f"feeds/{token}.ics", Caller(token=""), record_id=str(event.id))


def _feed_to_revoke() -> Sample:
    caller = Caller(tenant_id=None, permissions=())
    feeds.issue(actor=Actor.user(caller.user_id), shows_owned=False, as_of=NOON)
    return Sample("feeds/revoke", caller)


def _reassign() -> Sample:
    appointment = AppointmentFactory.create(pending_expires_at=NOON + HOUR)
    body = {"fromOwnerId": str(appointment.owner_user_id), "toOwnerId": str(Caller().user_id)}
    return Sample("reassignments", an_admin().but(permissions=[REASSIGN]), body)


WEEKLY: dict[str, Any] = {
    "fromDate": "2030-03-18",
    "toDate": "2030-03-31",
    "timeZone": "Europe/Riga",
    "windows": [{"weekdays": [1, 3], "startTime": "10:00", "endTime": "11:00"}],
}
SLOT = {"startAt": START, "endAt": END, "timeZone": "Europe/Moscow"}
EVENT = {"title": "Показ", "startAt": START, "endAt": END, "timeZone": "Europe/Moscow"}

_slot = "slots/<id:slot_id>"
_event = "events/<id:event_id>"
_appointment = "appointments/<id:appointment_id>"
ROUTES: dict[str, Route] = {
    "GET slots": Route(_showcase, is_public=True, queries=1),
    "POST slots": Route(lambda: Sample("slots", Caller(permissions=[SLOTS]), SLOT), 201, SLOTS, queries=7),
    "POST slots/bulk": Route(lambda: Sample("slots/bulk", Caller(permissions=[SLOTS]), WEEKLY), 201, SLOTS, queries=7),
    "GET slots/mine": Route(_own_slots, permission=SLOTS, lists=True, queries=1),
    f"GET {_slot}": Route(_of_slot(), permission=SLOTS, of_a_record=True, queries=1),
    f"PATCH {_slot}": Route(_of_slot(body={"autoConfirm": True}), permission=SLOTS, of_a_record=True, queries=10),
    f"POST {_slot}/withdraw": Route(_of_slot("/withdraw"), permission=SLOTS, of_a_record=True, queries=7),
    f"POST {_slot}/book": Route(_book, 201, queries=16),
    "GET appointments": Route(_own_appointments, lists=True, queries=2),
    f"GET {_appointment}": Route(_by_client(), of_a_record=True, queries=1),
    f"POST {_appointment}/cancel": Route(_by_client("/cancel", {"reason": "болею"}), of_a_record=True, queries=13),
    f"POST {_appointment}/confirm": Route(_of_appointment("/confirm"), permission=DECIDE, of_a_record=True, queries=10),
    f"POST {_appointment}/decline": Route(_of_appointment("/decline"), permission=DECIDE, of_a_record=True, queries=13),
    f"POST {_appointment}/complete": Route(_started("/complete"), permission=DECIDE, of_a_record=True, queries=12),
    f"POST {_appointment}/no-show": Route(_started("/no-show"), permission=DECIDE, of_a_record=True, queries=12),
    f"POST {_appointment}/reschedule": Route(_reschedule, of_a_record=True, queries=17),
    "POST reassignments": Route(_reassign, permission=REASSIGN, queries=17),
    "GET events": Route(_own_events, lists=True, queries=2),
    "POST events": Route(lambda: Sample("events", Caller(permissions=[EVENTS]), EVENT), 201, EVENTS, queries=6),
    f"GET {_event}": Route(_of_event(), of_a_record=True, queries=2),
    f"PATCH {_event}": Route(_of_event(body={"title": "Другой"}), permission=EVENTS, of_a_record=True, queries=7),
    f"POST {_event}/complete": Route(_of_event("/complete"), permission=EVENTS, of_a_record=True, queries=9),
    f"POST {_event}/cancel": Route(_of_event("/cancel"), permission=EVENTS, of_a_record=True, queries=9),
    "POST feeds": Route(lambda: Sample("feeds", Caller(tenant_id=None, permissions=())), 201, queries=1),
    "POST feeds/revoke": Route(_feed_to_revoke, queries=3),
    "GET feeds/<str:token>.ics": Route(_feed, is_public=True, queries=4),
}
