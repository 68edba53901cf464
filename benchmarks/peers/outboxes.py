"""Published outboxes for Django: one worker of each, messages of a thousand keys, to the broker that ours sends to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import database, messages
from benchmarks.peers.project import Project
from core import sql

_DATABASE = "peer"


@dataclass
class Outbox:
    """A contender: its messages are told before, what is measured is how long they take to Kafka."""

    name: str
    remark: str
    project: Project
    count: int

    @contextmanager
    def prepared(self) -> Iterator[None]:
        database.drop(_DATABASE)
        sql.execute(f"CREATE DATABASE {_DATABASE}")
        try:
            with self.project.ready("tell", database=_DATABASE, count=self.count) as tell:
                assert tell() == self.count
            sql.execute("CHECKPOINT")
            self._arrivals = messages.Arrivals()
            with self.project.ready("publish", database=_DATABASE) as self._publish:
                yield
        finally:
            database.drop(_DATABASE)

    def publish(self) -> int:
        return self._publish()

    def check(self, items: int) -> None:
        """Every message has come, once."""
        assert items == self.count
        keys = [f"key-{n}" for n in range(messages.KEYS)]
        seen = self._arrivals.versions(keys, count=items)
        assert sum(map(len, seen.values())) == items
        assert all(len(set(versions)) == len(versions) for versions in seen.values())


def all_of(count: int) -> list[Callable[[], Outbox]]:
    """Each of them over so many messages; Absent is raised by those that can't be installed."""
    return [
        lambda: Outbox(
            name="django-reliable-outbox",
            remark="django-reliable-outbox 0.1.1 (Python 3.12): its Kafka destination, `outbox_worker --burst`.",
            project=Project("reliable_outbox", "django-reliable-outbox[psycopg,kafka]==0.1.1", python="3.12"),
            count=count,
        ),
        lambda: Outbox(
            name="django-jaiminho",
            remark=(
                "django-jaiminho 2.2.1: keep-order, `events_relay`; the decorated function produces the message and "
                "waits for its acknowledgement."
            ),
            project=Project("jaiminho", "django-jaiminho==2.2.1", "psycopg[binary]", "confluent-kafka"),
            count=count,
        ),
        lambda: Outbox(
            name="django-outbox-pattern",
            remark=(
                "django-outbox-pattern 3.2.1 speaks STOMP only: here its connection is replaced by one that produces "
                "to Kafka and waits for the acknowledgement of each message, so its row is not something that its "
                "users can run. One round of `publish`, without its pause."
            ),
            project=Project("outbox_pattern", "django-outbox-pattern==3.2.1", "psycopg[binary]", "confluent-kafka"),
            count=count,
        ),
    ]
