"""The paths of the sweep: each a scene, an act in it that writes, and in how many commits the act may be done."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from django.conf import settings
from django.core.management import call_command

from appointments import booking, conflicts, decisions, feeds, reassignment, rescheduling
from appointments.matrix import Verb
from benchmarks.failpoints import scenes
from benchmarks.failpoints.reader import MemoryReader
from benchmarks.failpoints.scenes import ADMIN, CLIENT, COLLEAGUE, OWNER, TENANT, Facts
from benchmarks.failpoints.wire import When
from core import clock
from core.actors import Actor
from core.ids import new_id
from dev.processes import HOST
from notifications import deliveries
from notifications.models import Delivery
from ops import resending
from outbox import operations
from pin_calendar import diary, publishing
from tests.api.callers import Caller
from tests.factories import DAY, HOUR
from workers import consumer, inbox, models


@dataclass(frozen=True)
class Path:
    """`act` runs in a process that dies, and is given what `scene` returns; both are known to other modules by name.

    A worker's act is done again after the death, whatever it had done; a person asks again only if nothing was done.
    """

    scene: Callable[[], Facts]
    act: Callable[[Facts], object]
    commits: int = 1
    """How many states there may be after the first."""
    deaths: tuple[When, ...] = (When.BEFORE,)
    """Where Kafka or mails are written between two statements, a process may also die before it comes to that."""
    is_worker: bool = False
    is_told: bool = False
    """Whether what is in the outbox afterwards must be on Kafka."""


def _book(facts: Facts) -> object:
    return booking.book(facts["slot"], actor=Actor.user(CLIENT), as_of=clock.now())


def _book_by_the_api(facts: Facts) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    answer = Caller(user_id=CLIENT, tenant_id=None).post(f"slots/{facts['slot']}/book", Idempotency_Key=str(new_id()))
    if answer.status != HTTPStatus.CREATED:
        sys.exit(f"the API answered {answer}")


def _decide(verb: Verb, facts: Facts) -> object:
    return decisions.change(facts["appointment"], verb, actor=ADMIN, as_of=clock.now())


def _reschedule(facts: Facts) -> object:
    return rescheduling.reschedule(facts["appointment"], facts["further"], actor=ADMIN, as_of=clock.now())


def _reassign(_: Facts) -> object:
    return reassignment.reassign(
        tenant_id=TENANT, from_owner_id=OWNER, to_owner_id=COLLEAGUE, actor=Actor.system(), as_of=clock.now()
    )


def _resolve(facts: Facts) -> object:
    return conflicts.resolve(facts["conflict"], actor=ADMIN, as_of=clock.now())


def _publish(_: Facts) -> object:
    start_at = clock.now() + DAY
    drafts = [publishing.Draft(start_at + n * DAY, start_at + n * DAY + HOUR, "Europe/Riga") for n in range(2)]
    return publishing.publish(drafts, owner_user_id=OWNER, tenant_id=TENANT, actor=ADMIN, as_of=clock.now())


def _edit_slot(facts: Facts) -> object:
    return publishing.edit(facts["slot"], actor=ADMIN, as_of=clock.now(), min_lead_time_minutes=90)


def _withdraw(facts: Facts) -> object:
    return publishing.withdraw(facts["slot"], actor=ADMIN, as_of=clock.now())


def _create_event(_: Facts) -> object:
    start_at = clock.now() + DAY
    draft = diary.Draft("Call", start_at, start_at + HOUR, "Europe/Riga", (2_880, 60))
    return diary.create(draft, owner_user_id=OWNER, tenant_id=TENANT, actor=ADMIN, as_of=clock.now())


def _edit_event(facts: Facts) -> object:
    return diary.edit(facts["event"], actor=ADMIN, as_of=clock.now(), title="Another")


def _move_event(facts: Facts) -> object:
    start_at = clock.now() + 2 * DAY
    return diary.edit(facts["event"], actor=ADMIN, as_of=clock.now(), start_at=start_at, end_at=start_at + HOUR)


def _complete_event(facts: Facts) -> object:
    return diary.complete(facts["event"], actor=ADMIN, as_of=clock.now())


def _cancel_event(facts: Facts) -> object:
    return diary.cancel(facts["event"], actor=ADMIN, as_of=clock.now())


def _issue_feed(_: Facts) -> object:
    return feeds.issue(actor=Actor.user(CLIENT, tenant_id=TENANT), shows_owned=True, as_of=clock.now())


def _revoke_feed(_: Facts) -> None:
    feeds.revoke(actor=Actor.user(CLIENT, tenant_id=TENANT), as_of=clock.now())


def _revoke_feed_of(facts: Facts) -> object:
    return feeds.revoke_for(facts["feed"], actor=Actor.operator(), as_of=clock.now(), seen_token_of=facts["token_of"])


def _retry(facts: Facts) -> object:
    return operations.retry(facts["topic"], facts["key"], actor=ADMIN, by="sweep", as_of=clock.now())


def _skip(facts: Facts) -> object:
    return operations.skip(facts["topic"], facts["key"], actor=ADMIN, by="sweep", as_of=clock.now())


def _resend(facts: Facts) -> object:
    delivery = Delivery.objects.get(id=facts["delivery"])
    return resending.resend(delivery, actor=ADMIN, by="sweep", as_of=clock.now())


def _keep_house(_: Facts) -> None:
    as_of = clock.now()
    call_command("purge_outbox")
    models.purge(as_of=as_of)
    inbox.purge(as_of=as_of)
    deliveries.purge(as_of=as_of)


def _command(command: Sequence[str], facts: Facts) -> None:
    if "prefix" in facts:
        settings.ENV = settings.ENV.model_copy(update={"kafka_consumer_group_prefix": facts["prefix"]})
    if "records" in facts:
        consumer.Reader = lambda **_: MemoryReader(facts["records"])  # type: ignore[attr-defined,assignment]
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = HOST, facts["smtp"], False
    call_command(*command)


def _worker(scene: Callable[[], Facts], *command: str, commits: int = 1, is_told: bool = False) -> Path:
    return Path(scene, partial(_command, command), commits=commits, is_worker=True, is_told=is_told)


def _beyond(path: Path) -> Path:
    """It writes elsewhere than to the database too."""
    return replace(path, deaths=(When.BEFORE, When.AFTER))


_TIMEOUT, _DISPATCH, _RELAY, _NOTIFY, _CRM = (
    ("run_appointment_timeout", "--once"),
    ("run_reminder_dispatch", "--once"),
    ("run_outbox_relay", "--once"),
    ("run_notifications", "--once", "--drain"),
    ("run_crm_sync", "--once"),
)
PATHS: dict[str, Path] = {
    "book": Path(scenes.a_slot, _book),
    "book by the API, under a key": Path(scenes.a_slot, _book_by_the_api),
    "confirm": Path(scenes.a_pending_request, partial(_decide, Verb.CONFIRM)),
    "decline": Path(scenes.a_pending_request, partial(_decide, Verb.DECLINE)),
    "cancel": Path(scenes.a_confirmed_request, partial(_decide, Verb.CANCEL)),
    "complete": Path(scenes.a_meeting_that_has_begun, partial(_decide, Verb.COMPLETE)),
    "no-show": Path(scenes.a_meeting_that_has_begun, partial(_decide, Verb.NO_SHOW)),
    "reschedule": Path(scenes.a_confirmed_request_and_a_further_slot, _reschedule),
    "reassign": Path(scenes.a_conflicting_handover, _reassign),
    "resolve a conflict": Path(scenes.a_reassignment_conflict, _resolve),
    "publish slots": Path(scenes.nothing, _publish),
    "edit a slot": Path(scenes.a_slot, _edit_slot),
    "withdraw a slot": Path(scenes.a_slot, _withdraw),
    "create an event": Path(scenes.nothing, _create_event),
    "edit an event": Path(scenes.an_event, _edit_event),
    "move an event": Path(scenes.an_event, _move_event),
    "complete an event": Path(scenes.an_event, _complete_event),
    "cancel an event": Path(scenes.an_event, _cancel_event),
    "issue a feed": Path(scenes.nothing, _issue_feed),
    "revoke a feed": Path(scenes.a_feed, _revoke_feed),
    "revoke a person's feed": Path(scenes.a_feed, _revoke_feed_of),
    "retry a blocked key": Path(scenes.a_blocked_key, _retry),
    "skip a blocking message": _beyond(Path(scenes.a_blocked_key, _skip)),
    "resend a delivery": Path(scenes.a_parked_delivery, _resend),
    "ensure_groups": Path(scenes.nothing, partial(_command, ["ensure_groups"])),
    "housekeeping": Path(scenes.things_of_long_ago, _keep_house, commits=3, is_worker=True),
    "timeout, an item a transaction": _worker(scenes.two_overdue_requests, *_TIMEOUT, commits=2),
    "timeout, a chunk": _worker(scenes.two_overdue_requests, *_TIMEOUT, "--chunk-size", "10"),
    "dispatcher": _worker(scenes.due_reminders, *_DISPATCH),
    "relay, a burst": _beyond(_worker(scenes.a_queue, *_RELAY, is_told=True)),
    "relay, a refused message": _beyond(_worker(scenes.a_queue_with_a_refused_message, *_RELAY, commits=4)),
    "relay, a retry": _beyond(_worker(scenes.a_blocked_key, *_RELAY, commits=3, is_told=True)),
    "notifications": _beyond(_worker(scenes.a_reminder_to_read, *_NOTIFY, commits=5)),
    "crm-sync, a deadline": _worker(scenes.deadlines_to_read, *_CRM, commits=3),
    "crm-sync, an assignee": _worker(scenes.a_handover_to_read, *_CRM),
    "crm-sync, the lead feed, from Kafka": _worker(scenes.a_lapsed_request_on_kafka, *_CRM, commits=2),
}

LEFT_OUT: dict[str, str] = {
    "ops/collector.py: read": "a transaction that only reads",
    "ops/proof.py: snapshot": "a transaction that only reads",
    "workers/command.py: WorkerCommand._preview": "a transaction that only reads",
    "ops/demo_data.py: _introduce_people": "invented data, made by the use cases above, never in production",
}
"""Writers of the census that the sweep leaves out, with the reason."""
