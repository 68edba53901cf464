"""kill -9 of a relay before each statement that tells what became of a message: at most a repeat, never a loss."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core import sql
from core.ids import new_id
from outbox.models import OutboxParked
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.gates import gate
from tests.outbox.messages import a_change
from tests.outbox.processes import relay_process
from tests.outbox.relaying import TOPIC, heal, poison, relay_all, relay_the_rest, tell

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def killed_before(statement: str) -> Iterator[None]:
    """A relay works until it stands before the statement, which is never executed."""
    with gate(statement, name="outbox relay") as closed, relay_process() as relay:
        session = closed.wait_until_reached()
        relay.kill()
        relay.wait()
        [(was_ended,)] = sql.fetch("SELECT pg_terminate_backend(%s, 5000)", [session])
        assert was_ended
        yield


def deliveries(bootstrap: str, *keys: object) -> dict[str, list[int]]:
    """What a consumer has seen of each key: every version, repeats left out where the message id is the same."""
    seen: dict[str, list[int]] = {str(key): [] for key in keys}
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC]), *keys)
    for record in kafka_reader.first_deliveries(records):
        seen[record.key].append(record.value["aggregateVersion"])
    return seen


def test_before_an_acknowledgement_is_noted(relay: RelayJob, bootstrap: str) -> None:
    event_ids = [new_id() for _ in range(3)]
    tell(a_change(event_id, version=version) for version in (1, 2) for event_id in event_ids)

    with killed_before("DELETE outbox_ready"):
        relay_the_rest(relay)

    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC]), *event_ids)
    assert len(records) == 12  # all were sent, and all again
    assert deliveries(bootstrap, *event_ids) == {str(event_id): [1, 2] for event_id in event_ids}


@pytest.mark.parametrize("statement", ["INSERT outbox_blocked_keys", "INSERT outbox_parked"])
def test_before_a_refusal_is_noted(relay: RelayJob, bootstrap: str, statement: str) -> None:
    sick, sound = new_id(), new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3) for event_id in (sick, sound))
    was = poison(sick, version=2)

    with killed_before(statement):
        heal(was)
        relay_the_rest(relay)

    assert deliveries(bootstrap, sick, sound) == {str(sick): [1, 2, 3], str(sound): [1, 2, 3]}


@pytest.mark.parametrize("statement", ["DELETE outbox_parked", "DELETE outbox_blocked_keys"])
def test_before_a_retry_that_passed_is_noted(relay: RelayJob, bootstrap: str, statement: str) -> None:
    event_id = new_id()
    tell(a_change(event_id, version=version) for version in (1, 2, 3))
    was = poison(event_id, version=1)
    relay_all(relay)
    relay.close()
    heal(was)

    with killed_before(statement):
        assert OutboxParked.objects.count() == 3
        tell([a_change(event_id, version=4)])
        relay_the_rest(relay)

    assert deliveries(bootstrap, event_id) == {str(event_id): [1, 2, 3, 4]}
