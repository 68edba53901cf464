"""Which relay owns which shards."""

import threading
from contextlib import suppress

import pytest
from django.conf import LazySettings

from dev.processes import free_port
from outbox import kafka
from outbox.relay import RelayJob
from tests.outbox.relaying import relay_all
from tests.waiting import eventually
from workers.job import JobUnavailable

pytestmark = pytest.mark.django_db(transaction=True)


def test_relays_share_the_shards_fairly_and_take_over_from_the_dead(relay: RelayJob) -> None:
    def shards(job: RelayJob) -> list[int]:
        relay_all(job)
        return job._tenure.shards if job._tenure else []

    eventually(lambda: len(shards(relay)) == 8, "the only relay owns all")
    other = RelayJob()
    try:
        eventually(lambda: len(shards(relay)) == len(shards(other)) == 4, "two relays share")
        assert set(shards(relay)) | set(shards(other)) == set(range(8))
    finally:
        other.close()

    eventually(lambda: len(shards(relay)) == 8, "the survivor owns all")


def try_once(relay: RelayJob) -> None:
    with suppress(JobUnavailable):
        relay_all(relay)


def test_a_relay_that_cannot_reach_the_broker_is_left_no_share(
    relay: RelayJob, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_METADATA_SECONDS", 2.0)
    relay_all(relay)
    settings.ENV = settings.ENV.model_copy(update={"kafka_bootstrap_servers": f"127.0.0.1:{free_port()}"})
    mistaken = RelayJob()
    trying = threading.Thread(target=try_once, args=[mistaken])
    trying.start()
    owned = set()

    while trying.is_alive():
        relay_all(relay)
        owned.add(len(relay._tenure.shards))  # type: ignore[union-attr]

    trying.join()
    mistaken.close()
    assert owned == {8}


def test_the_server_looks_after_a_relay_whose_host_is_gone(relay: RelayJob) -> None:
    """Its session would else keep the shards for as long as the server's kernel says, which is hours."""
    relay_all(relay)
    row = relay._tenure.session.execute(  # type: ignore[union-attr]
        "SELECT sum(setting::int) FROM pg_settings WHERE name LIKE 'tcp_keepalives%'"
    ).fetchone()

    assert row is not None
    assert 0 < row[0] <= 20
