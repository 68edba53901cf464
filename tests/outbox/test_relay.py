"""What the relay promises, in one process."""

from collections.abc import Iterator

import pytest

from contracts.calendar import EventStatusChanged
from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.outbox.messages import a_change
from tests.outbox.relaying import relay_all, tell

pytestmark = pytest.mark.django_db(transaction=True)
TOPIC = EventStatusChanged.TOPIC


@pytest.fixture
def relay(kafka_topics: str) -> Iterator[RelayJob]:
    job = RelayJob()
    yield job
    job.close()


def test_messages_arrive_as_stored_and_leave_the_queue(relay: RelayJob, bootstrap: str) -> None:
    event_id = new_id()
    changes = [a_change(event_id, version=version) for version in range(1, 6)]
    tell(changes)

    result = relay_all(relay)

    assert result.counts() == {"published": 5, "failed": 0, "parked": 0}
    records = [r for r in kafka_reader.read_all(bootstrap, [TOPIC]) if r.key == str(event_id)]
    assert [r.value["aggregateVersion"] for r in records] == [1, 2, 3, 4, 5]
    assert [r.message_id for r in records] == [
        str(i) for i in OutboxMessage.objects.order_by("id").values_list("message_id", flat=True)
    ]
    assert not OutboxReady.objects.exists()
