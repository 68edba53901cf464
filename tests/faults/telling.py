"""What passes over Kafka: to the consumers, and from the outbox to who has read all of it."""

from contextlib import closing

from contracts.crm import BookingDeadlineChanged
from contracts.samples import EXAMPLES
from core import clock
from core.ids import new_id
from outbox import topics
from outbox.models import OutboxMessage
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.keep_going import always
from workers.topics import ensure

NOTIFY, CRM = "run_notifications", "run_crm_sync"


def a_deadline() -> BookingDeadlineChanged:
    """Of a booking that nobody has heard of."""
    message: BookingDeadlineChanged = EXAMPLES[BookingDeadlineChanged].model_copy(update={"booking_id": new_id()})
    return message


def assert_relayed_whole(bootstrap: str) -> None:
    """Once relayed, a consumer has read every message of the outbox, in order per key; a repeat has the same id."""
    ensure(topics.names())
    with closing(RelayJob()) as relay:
        relay.cycle(as_of=clock.now(), limit=2_000, keep_going=always)
    told = [
        (topic, key, str(id_))
        for topic, key, id_ in OutboxMessage.objects.order_by("id").values_list("topic", "key", "message_id")
    ]
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap), *{key for _, key, _ in told})
    heard = [(record.topic, record.key, record.message_id) for record in kafka_reader.first_deliveries(records)]
    assert sorted(heard, key=lambda place: place[:2]) == sorted(told, key=lambda place: place[:2])
