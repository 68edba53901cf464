"""What must be so after a run: read from PostgreSQL, from Kafka from its beginning on, and from logs."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import get_args

from django.conf import settings

from benchmarks.soak.crew import Crew
from benchmarks.soak.load import Ledger
from core import sql
from crm import lead_feed
from crm.job import CrmSyncJob
from notifications import audience
from notifications.job import NotificationsJob
from ops.invariants import INVARIANTS
from tests import kafka_reader
from tests.invariants import violations

# Cycles that an outage breaks off are told too, and are as they must be; a bare traceback is of a worker that ended.
_BAD_LINE = re.compile(r'^Traceback|"event":"(item failed|message put aside|delivery parked|delivery failed)"')
_READ_SECONDS = 120


@dataclass(frozen=True)
class Line:
    """One promise: how many of how many broke it, with the first of them."""

    promise: str
    checked: int
    broken: int
    example: str = ""

    @property
    def holds(self) -> bool:
        return self.broken == 0 and self.checked > 0


_LEFT = """
SELECT 'overdue requests', count(*) FROM appointments WHERE status = 'Pending' AND pending_expires_at < now()
UNION ALL
SELECT 'due reminders', count(*) FROM event_reminders WHERE status = 'Pending' AND due_at < now()
UNION ALL
SELECT 'messages to publish', (SELECT count(*) FROM outbox_ready) + (SELECT count(*) FROM outbox_parked)
UNION ALL
SELECT 'messages to read by ' || wanted.consumer, count(*)
FROM outbox_messages AS message
JOIN (SELECT %(notifications)s AS consumer, unnest(%(told)s::text[]) AS topic
      UNION ALL SELECT %(crm)s, unnest(%(fed)s::text[])) AS wanted USING (topic)
WHERE NOT EXISTS (SELECT 1 FROM processed_messages AS processed
                  WHERE processed.consumer = wanted.consumer AND processed.message_id = message.message_id)
GROUP BY wanted.consumer
UNION ALL
SELECT 'mails to send', count(*) FROM deliveries WHERE status = 'pending'
"""


def left_to_do() -> dict[str, int]:
    """What the workers have still to do, by kind; empty when they may rest."""
    prefix = settings.ENV.kafka_consumer_group_prefix
    found = sql.fetch(
        _LEFT,
        {
            "notifications": prefix + NotificationsJob.group_name,
            "crm": prefix + CrmSyncJob.group_name,
            "told": [contract.TOPIC for contract in audience.CONTRACTS],
            "fed": [contract.TOPIC for contract in get_args(lead_feed.Told)],
        },
    )
    return {what: count for what, count in found if count}


def lines(*, ledger: Ledger, crew: Crew, mails: Counter[str]) -> list[Line]:
    """The proof of a run that is over and drained."""
    failures, deserters = ledger.failures, crew.deserters
    return [
        _undone(),
        _invariants(),
        _acknowledged(ledger),
        *_published(_records()),
        _expired(),
        _reminded(),
        _crm(ledger),
        _delivered(mails),
        Line("unexpected errors of those who act", sum(ledger.done.values()), len(failures), _first(failures)),
        Line("workers that ended by themselves, or did not stop", len(crew.names), len(deserters), _first(deserters)),
        _logged(crew),
    ]


def figures(*, ledger: Ledger, mails: Counter[str], seconds: float) -> list[tuple[str, str]]:
    """The load that was borne."""
    [(expired, reminded, messages, fed)] = sql.fetch(
        """
        SELECT (SELECT count(*) FROM appointments WHERE status = 'Expired'),
               (SELECT count(*) FROM event_reminders WHERE status = 'Sent'),
               (SELECT count(*) FROM outbox_messages), (SELECT count(*) FROM lead_feed_entries)
        """
    )
    records = _records()

    def rate(count: int) -> str:
        return f"{count:,} ({count / seconds:.1f} a second)"

    return [
        ("changes made by people", rate(sum(ledger.done.values()))),
        ("of them bookings", rate(sum(ledger.done[act] for act in ("book", "book_what_lapses", "meet")))),
        ("refused by a rule", f"{sum(ledger.refused.values()):,}"),
        ("cut off by an outage, or in each other's way", f"{ledger.cut_off:,}"),
        ("messages of the CRM", rate(len(ledger.crm_ids))),
        ("requests expired", rate(expired)),
        ("reminders sent", rate(reminded)),
        ("messages published", rate(messages)),
        ("of them more than once, with the same id", f"{len(records) - len(kafka_reader.first_deliveries(records)):,}"),
        ("mails sent", rate(len(mails))),
        ("of them more than once, with the same id", f"{mails.total() - len(mails):,}"),
        ("lines of the lead feed", f"{fed:,}"),
    ]


@cache
def _records() -> list[kafka_reader.Record]:
    return kafka_reader.read_all(os.environ["KAFKA_BOOTSTRAP_SERVERS"], timeout=_READ_SECONDS)


def _undone() -> Line:
    left = left_to_do()
    return Line("work left undone", 1, sum(left.values()), ", ".join(left))


def _invariants() -> Line:
    broken = violations()
    return Line("invariants violated", len(INVARIANTS), len(broken), _first(broken))


def _acknowledged(ledger: Ledger) -> Line:
    """Each change that the database had confirmed to its caller."""
    kept: dict[tuple[str, object], int] = {}
    for table in {table for table, _ in ledger.receipts}:
        kept |= {(table, id_): version for id_, version in sql.fetch(f"SELECT id, version FROM {table}")}
    lost = [place for place, version in ledger.receipts.items() if kept.get(place, 0) < version]
    return Line("acknowledged changes lost", len(ledger.receipts), len(lost), _first(map(str, lost)))


def _published(records: list[kafka_reader.Record]) -> list[Line]:
    stored = {str(id_): n for n, id_ in sql.fetch("SELECT id, message_id FROM outbox_messages")}
    first = kafka_reader.first_deliveries(records)
    on_kafka = {record.message_id for record in first}
    by_key: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in first:
        by_key[record.topic, record.key].append(record.message_id)
    disordered = [key for key, ids in by_key.items() if ids != sorted(ids, key=lambda id_: stored.get(id_, 0))]
    unknown = sorted(on_kafka - stored.keys())
    return [
        Line("messages lost: in the outbox, not on Kafka", len(stored), len(stored.keys() - on_kafka)),
        Line("messages doubled: on Kafka under an id that no change has", len(on_kafka), len(unknown), _first(unknown)),
        Line("keys out of order, by first deliveries", len(by_key), len(disordered), _first(map(str, disordered))),
    ]


def _expired() -> Line:
    """Each Expired request: one audit line, and the two messages once each."""
    return _count(
        "expired requests told other than once",
        """
        SELECT appointment.id,
               (SELECT count(*) FROM audit_log AS line
                WHERE line.aggregate_id = appointment.id AND line.to_status = 'Expired') AS noted,
               (SELECT count(*) FROM outbox_messages AS message WHERE message.key = appointment.id::text
                AND message.topic = 'pin.calendar.appointment-cancelled.v1') AS cancelled,
               (SELECT count(*) FROM outbox_messages AS message WHERE message.key = appointment.calendar_event_id::text
                AND message.topic = 'pin.calendar.event-status-changed.v1') AS ended
        FROM appointments AS appointment WHERE appointment.status = 'Expired'
        """,
        "(noted, cancelled, ended) <> (1, 1, 1)",
    )


def _reminded() -> Line:
    return _count(
        "sent reminders told other than once",
        """
        SELECT reminder.id, count(message.id) AS told
        FROM event_reminders AS reminder
        LEFT JOIN outbox_messages AS message ON message.key = reminder.event_id::text
             AND message.topic = 'pin.calendar.reminder-due.v1'
             AND message.payload::jsonb ->> 'reminderId' = reminder.id::text
        WHERE reminder.status = 'Sent' GROUP BY reminder.id
        """,
        "told <> 1",
    )


def _crm(ledger: Ledger) -> Line:
    """The newest revision of each booking is the one that was applied."""
    applied = dict(sql.fetch("SELECT booking_id, revision FROM crm_deadlines"))
    lost = [booking for booking, revision in ledger.revisions.items() if applied.get(booking, 0) < revision]
    return Line("deadlines of the CRM not followed", len(ledger.revisions), len(lost), _first(map(str, lost)))


def _delivered(mails: Counter[str]) -> Line:
    """The database has one delivery a fact, person and channel; how many came a second time is among the figures."""
    sent = {str(id_) for (id_,) in sql.fetch("SELECT id FROM deliveries WHERE status = 'sent'")}
    unsent = sorted(sent ^ mails.keys())
    return Line("deliveries that say sent and are not, or the reverse", len(sent), len(unsent), _first(unsent))


def _logged(crew: Crew) -> Line:
    lines = list(crew.log_lines())
    bad = [line for line in lines if _BAD_LINE.search(line)]
    return Line("items failed or messages put aside, by the logs", len(lines), len(bad), _first(bad))


def _count(promise: str, judged: str, is_broken: str) -> Line:
    [(checked, broken, example)] = sql.fetch(
        f"SELECT count(*), count(*) FILTER (WHERE {is_broken}), min(id::text) FILTER (WHERE {is_broken})"
        f" FROM ({judged}) AS judged"
    )
    return Line(promise, checked, broken, example or "")


def _first(found: Iterable[str]) -> str:
    return next(iter(found), "")
