"""The servers that a run needs and the environment does not name."""

import os
from collections.abc import Mapping
from typing import Self

from dev.apache_kafka import ApacheKafka
from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from dev.workspace import Workspace


class Servers:
    """Embedded PostgreSQL unless DATABASE_URL is set, an embedded broker unless KAFKA_BOOTSTRAP_SERVERS is set.

    With `EMBEDDED_KAFKA=apache` in the environment the broker is Apache Kafka itself (see dev.apache_kafka).

    `environment` has the variables of those that were started, to be added to the environment of what uses them.
    """

    def __init__(self, name: str, *, fast: bool = False, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = Workspace(name)
        self.postgres = None if environ.get("DATABASE_URL") else EmbeddedPostgres(self._workspace, fast=fast)
        self._kafka_profile = "kafka" if environ.get("EMBEDDED_KAFKA") == "apache" else "embedded"
        broker = ApacheKafka if self._kafka_profile == "kafka" else EmbeddedKafka
        self.kafka = None if environ.get("KAFKA_BOOTSTRAP_SERVERS") else broker(self._workspace)
        self.environment: dict[str, str] = {}

    def start(self) -> dict[str, str]:
        """Start what is missing and return `environment`."""
        try:
            if self.postgres:
                self.environment["DATABASE_URL"] = self.postgres.start()
            if self.kafka:
                self.environment |= {
                    "KAFKA_BOOTSTRAP_SERVERS": self.kafka.start(),
                    "KAFKA_PROFILE": self._kafka_profile,
                }
        except BaseException:
            self.close()
            raise
        return self.environment

    def close(self) -> None:
        """Stop what was started, remove its files; harmless when done twice."""
        if self.kafka:
            self.kafka.stop()
        if self.postgres:
            self.postgres.stop()
        self._workspace.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
