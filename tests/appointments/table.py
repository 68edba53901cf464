"""The table of an appointment's transitions, typed a second time from the specification's words."""

from dataclasses import dataclass

from tests.factories import DAY, HOUR, NOON

START = NOON
NEW_START = START + 2 * DAY
DEADLINE = START - 3 * HOUR  # 24 h after the booking; the slots' lead time is an hour

MOMENTS = {
    "in time": START - 4 * HOUR,
    "overdue": START - 2 * HOUR,
    "late": START - HOUR / 2,
    "at start": START,
    "after": START + 2 * HOUR,
}
BEFORE_START = {"in time", "overdue", "late"}
FROM_START = {"at start", "after"}
OVERDUE = {"overdue", "late", "at start", "after"}
IN_TIME = {"in time"}
RELEASED = {
    "in time": "Available",
    "overdue": "Available",
    "late": "Expired",
    "at start": "Expired",
    "after": "Expired",
}
ANY = (False, True)
AUTO = (True,)
NOT_AUTO = (False,)

STATUSES = ["Pending", "Confirmed", "Declined", "Cancelled", "Expired", "Completed", "NoShow"]
VERBS = ["confirm", "decline", "cancel", "expire", "complete", "no_show", "reschedule"]
PARTIES = ["client", "owner", "timeout", "stranger"]


@dataclass(frozen=True)
class Line:
    verb: str
    from_: str
    by: str
    when: set[str]
    new_slot_auto_confirm: tuple[bool, ...]
    to: str
    slot: str
    event: str
    text: str
    reminders: str
    messages: tuple[str, ...]


CANCELLED = "appointment-cancelled"
COMPLETED = "appointment-completed"
MOVED = "appointment-rescheduled"
AGREED = "appointment-confirmed"
EVENT = "event-status-changed"
BY_CLIENT, BY_OWNER = "Запись отменена клиентом", "Запись отменена агентом"
DECLINED, EXPIRED = "Запись отклонена агентом", "Запись не подтверждена агентом в срок"

# fmt: off
TABLE = [
    Line("confirm", "Pending", "owner", BEFORE_START, ANY, "Confirmed", "stays", "stays", "", "kept", (AGREED,)),
    Line("decline", "Pending", "owner", BEFORE_START, ANY, "Declined", "release", "Cancelled", DECLINED, "Skipped",
         (f"{CANCELLED} Declined", f"{EVENT} Declined")),
    Line("cancel", "Pending", "client", BEFORE_START, ANY, "Cancelled", "release", "Cancelled", BY_CLIENT, "Skipped",
         (f"{CANCELLED} CancelledByClient", f"{EVENT} CancelledByClient")),
    Line("cancel", "Confirmed", "client", BEFORE_START, ANY, "Cancelled", "release", "Cancelled", BY_CLIENT, "Skipped",
         (f"{CANCELLED} CancelledByClient", f"{EVENT} CancelledByClient")),
    Line("cancel", "Pending", "owner", BEFORE_START, ANY, "Cancelled", "release", "Cancelled", BY_OWNER, "Skipped",
         (f"{CANCELLED} CancelledByOwner", f"{EVENT} CancelledByOwner")),
    Line("cancel", "Confirmed", "owner", BEFORE_START, ANY, "Cancelled", "release", "Cancelled", BY_OWNER, "Skipped",
         (f"{CANCELLED} CancelledByOwner", f"{EVENT} CancelledByOwner")),
    Line("expire", "Pending", "timeout", OVERDUE, ANY, "Expired", "release", "Cancelled", EXPIRED, "Skipped",
         (f"{CANCELLED} Expired", f"{EVENT} Expired")),
    Line("complete", "Confirmed", "owner", FROM_START, ANY, "Completed", "stays", "Completed", "", "Skipped",
         (f"{COMPLETED} Completed", f"{EVENT} None")),
    Line("no_show", "Confirmed", "owner", FROM_START, ANY, "NoShow", "stays", "Completed", "", "Skipped",
         (f"{COMPLETED} NoShow", f"{EVENT} None")),
    Line("reschedule", "Pending", "owner", IN_TIME, ANY, "Pending", "swap", "moved", "", "rematerialised", (MOVED,)),
    Line("reschedule", "Confirmed", "owner", BEFORE_START, ANY, "Confirmed", "swap", "moved", "", "rematerialised",
         (MOVED,)),
    Line("reschedule", "Pending", "client", IN_TIME, NOT_AUTO, "Pending", "swap", "moved", "", "rematerialised",
         (MOVED,)),
    Line("reschedule", "Confirmed", "client", BEFORE_START, NOT_AUTO, "Pending", "swap", "moved", "",
         "rematerialised", (MOVED,)),
    Line("reschedule", "Pending", "client", BEFORE_START, AUTO, "Confirmed", "swap", "moved", "", "rematerialised",
         (MOVED, AGREED)),
    Line("reschedule", "Confirmed", "client", BEFORE_START, AUTO, "Confirmed", "swap", "moved", "", "rematerialised",
         (MOVED,)),
]
# fmt: on
