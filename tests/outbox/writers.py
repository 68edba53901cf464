"""Writers under which relays are disturbed, and the proof that a consumer has missed nothing."""

import random
import threading
from collections import defaultdict
from contextlib import ExitStack
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, connections, transaction

from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady
from outbox.publish import publish
from tests import kafka_reader
from tests.outbox.messages import NOON, a_change
from tests.outbox.relaying import TOPIC, own_an_xid
from tests.waiting import eventually


class Writers:
    """Threads that change aggregates as the application does: lock, tell, commit; some slowly, some not at all.

    A database that is away only stops them for a while.
    """

    def __init__(self, *, count: int, keys: int) -> None:
        self._keys = [new_id() for _ in range(keys)]
        self._versions: dict[UUID, int] = defaultdict(int)
        self._locks = {key: threading.Lock() for key in self._keys}
        self._is_stopping = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(count)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def have_written(self, count: int) -> None:
        """Wait until so many more changes are committed."""
        enough = self.total() + count
        eventually(lambda: self.total() >= enough, f"writers write {count} more", timeout=30)

    def total(self) -> int:
        return sum(self._versions.values())

    def committed(self) -> dict[str, int]:
        """The number of changes by key."""
        return {str(key): version for key, version in self._versions.items() if version}

    def _write(self, seed: int) -> None:
        dice = random.Random(seed)
        try:
            while not self._is_stopping.is_set():
                self._change(dice.sample(self._keys, 2), fate=dice.random())
        except BaseException as error:
            self._errors.append(error)
        finally:
            connections.close_all()

    def _change(self, keys: list[UUID], *, fate: float) -> None:
        with ExitStack() as held:
            for key in sorted(keys):
                held.enter_context(self._locks[key])
            try:
                self._commit_or_not(keys, fate=fate)
            except (OperationalError, InterfaceError):
                self._look_what_was_committed(keys)

    def _commit_or_not(self, keys: list[UUID], *, fate: float) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            own_an_xid()
            if fate < 0.1:
                cursor.execute("SELECT pg_sleep(0.02)")
            publish([a_change(key, version=self._versions[key] + 1) for key in keys], as_of=NOON)
            if fate < 0.2:
                cursor.execute("SELECT pg_sleep(0.05)")
            transaction.set_rollback(fate > 0.9)
        if fate <= 0.9:
            for key in keys:
                self._versions[key] += 1

    def _look_what_was_committed(self, keys: list[UUID]) -> None:
        """A commit whose answer was lost may have happened."""

        def counts() -> list[int]:
            connection.close()
            try:
                return [OutboxMessage.objects.filter(key=str(key)).count() for key in keys]
            except (OperationalError, InterfaceError):
                return []

        self._versions.update(zip(keys, eventually(counts, "the database is back", timeout=60), strict=True))


def until_empty(*, timeout: float = 30) -> None:
    eventually(lambda: not OutboxReady.objects.exists(), "the queue is empty", timeout=timeout)


def assert_nothing_lost_or_out_of_order(bootstrap: str, committed: dict[str, int]) -> None:
    """A consumer that reads from the start sees each change of each key, the first time in order."""
    records = kafka_reader.of_keys(kafka_reader.read_all(bootstrap, [TOPIC], timeout=30), *committed)
    stored = OutboxMessage.objects.filter(key__in=committed).values_list("message_id", flat=True)
    assert {r.message_id for r in records} == set(map(str, stored))
    seen: dict[str, list[int]] = defaultdict(list)
    for record in kafka_reader.first_deliveries(records):
        seen[record.key].append(record.value["aggregateVersion"])
    wrong = {key: count for key, count in committed.items() if seen[key] != list(range(1, count + 1))}
    assert not wrong, (wrong, [(r.key, r.offset, r.value["aggregateVersion"]) for r in records if r.key in wrong])
