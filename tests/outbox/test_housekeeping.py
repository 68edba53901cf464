"""Old messages go; what is unsent or parked stays, however old."""

import datetime
import io

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command

from core import clock
from core.ids import new_id
from outbox import housekeeping
from outbox.models import OutboxMessage, OutboxParked, OutboxReady
from outbox.ownership import LOCKS, PURGE
from outbox.relay import RelayJob
from tests.outbox.messages import NOON, a_change
from tests.outbox.relaying import poison, relay_all, tell
from tests.sessions import direct

pytestmark = pytest.mark.django_db(transaction=True)
KEPT = datetime.timedelta(days=settings.ENV.outbox_retention_days)


def purge(*, as_of: datetime.datetime) -> int:
    run, deleted = housekeeping.Purge(), 0
    run.start()
    while run.is_running:
        deleted += run.step(as_of=as_of)
    return deleted


def test_only_published_messages_past_their_time_go(relay: RelayJob) -> None:
    sick = new_id()
    tell([a_change(sick, version=1), a_change(sick, version=2), a_change(), a_change()])
    poison(sick)
    relay_all(relay)
    tell([a_change()])
    much_later = NOON + datetime.timedelta(days=3_650)

    assert purge(as_of=NOON + KEPT) == 0
    assert purge(as_of=much_later) == 2

    left = set(OutboxMessage.objects.values_list("id", flat=True))
    assert left == {
        *OutboxReady.objects.values_list("id", flat=True),
        *OutboxParked.objects.values_list("id", flat=True),
    }
    assert len(left) == 3


def test_it_goes_on_past_what_must_stay_and_stops_at_the_first_young_batch(
    relay: RelayJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "BATCH", 10)
    tell(a_change() for _ in range(25))
    OutboxReady.objects.filter(id__gt=OutboxMessage.objects.order_by("id")[14].id).delete()  # the first 15 are unsent
    young = NOON + KEPT
    OutboxMessage.objects.filter(id=OutboxMessage.objects.latest("id").id).update(created_at=young)

    assert purge(as_of=young + datetime.timedelta(seconds=1)) == 9
    assert OutboxMessage.objects.count() == 16


def test_a_purge_leaves_the_work_to_one_that_is_at_it() -> None:
    tell(a_change() for _ in range(3))
    OutboxReady.objects.all().delete()
    purge, as_of = housekeeping.Purge(), NOON + 2 * KEPT

    with psycopg.connect(**direct()) as another:
        another.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCKS, PURGE])
        purge.start()
        assert (purge.step(as_of=as_of), purge.is_running) == (0, False)

    purge.start()
    assert purge.step(as_of=as_of) == 3


def test_the_command_says_how_many(relay: RelayJob) -> None:
    tell([a_change(), a_change()])  # of March 2026, which is long ago
    relay_all(relay)
    OutboxMessage.objects.update(created_at=clock.now() - 2 * KEPT)
    out = io.StringIO()

    call_command("purge_outbox", stdout=out)

    assert out.getvalue() == "2 messages deleted\n"


def test_the_relay_purges_when_it_has_nothing_to_publish(relay: RelayJob) -> None:
    tell([a_change()])
    relay_all(relay)
    relay._purging.reopen()

    relay_all(relay, as_of=NOON + 2 * KEPT)

    assert not OutboxMessage.objects.exists()
