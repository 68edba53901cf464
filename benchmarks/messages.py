"""Messages for the relay's benchmarks, made by SQL: as `publish` writes them, 600 bytes each, of a thousand keys."""

import re
import time
from collections.abc import Collection
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition
from django.conf import settings

from contracts.calendar import EventStatusChanged

TOPIC = EventStatusChanged.TOPIC
KEYS = 1_000
BYTES = 600
_PATIENCE_SECONDS = 60
_VERSION = re.compile(rb'"aggregateVersion": ?([0-9]+)')  # wherever an envelope has it
_HEADERS = (
    '{"ce_specversion":"1.0","ce_id":"%%s","ce_type":"%%s","ce_source":"/pin/calendar",'
    '"ce_time":"2026-03-01T12:00:00.000000Z","ce_subject":"%%s","content-type":"application/json",'
    '"ce_correlationid":"%%s","ce_tenantid":"%%s"}'
)
_TELL = f"""
WITH given AS (
    SELECT %(count)s::integer AS count, %(keys)s::integer AS keys, %(topic)s::text AS topic, %(bytes)s::integer AS size
), named AS MATERIALIZED (
    SELECT n, gen_random_uuid()::text AS key FROM given, generate_series(0, keys - 1) AS n
), made AS MATERIALIZED (
    SELECT m.n, m.n / keys + 1 AS version, named.key, topic, size, uuidv7() AS id, gen_random_uuid() AS run
    FROM given, generate_series(0, count - 1) AS m(n) JOIN named ON named.n = m.n %% %(keys)s::integer
), told AS (
    INSERT INTO outbox_messages (message_id, dedup_key, topic, key, contract_version, payload, headers, tenant_id,
                                 correlation_id, created_at)
    SELECT id, id::text, topic, key, 1,
           rpad(format('{{"contractVersion":1,"aggregateVersion":%%s,"filling":"', version), size - 2, 'x') || '"}}',
           format('{_HEADERS}', id, topic, key, run, run), run, run, now()
    FROM made ORDER BY n
    RETURNING id, key
)
INSERT INTO outbox_ready (shard, id)
SELECT crc32(convert_to(key, 'UTF8')) %% 8, id FROM told
"""


def tell(session: psycopg.Connection[Any], count: int) -> None:
    """So many messages, whose versions count up within each key."""
    parameters = {"count": count, "keys": KEYS, "topic": TOPIC, "bytes": BYTES}
    session.execute("SET statement_timeout = 0")
    session.execute(_TELL.encode(), parameters)


class Arrivals:
    """What comes to the topic from about now on."""

    def __init__(self) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.ENV.kafka_bootstrap_servers,
                "group.id": "benchmarks",
                "enable.auto.commit": False,
            }
        )
        partitions = self._consumer.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        self._consumer.assign([TopicPartition(TOPIC, partition, self._end(partition)) for partition in partitions])

    def versions(self, keys: Collection[str], *, count: int) -> dict[str, list[int]]:
        """The versions of each of the keys as they have come, in order; at least so many are waited for."""
        seen: dict[str, list[int]] = {key: [] for key in keys}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while sum(map(len, seen.values())) < count and time.monotonic() < deadline:
            for message in self._consumer.consume(10_000, timeout=1):
                assert message.error() is None, message.error()
                key, value = message.key(), message.value()
                if key and value and (name := key.decode()) in seen:
                    [version] = _VERSION.findall(value)
                    seen[name].append(int(version))
        self._consumer.close()
        return seen

    def _end(self, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=30)
        return int(end)
