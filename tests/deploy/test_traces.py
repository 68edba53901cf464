"""One trace from a cycle over the outbox and Kafka into the consumer; sent to a collector where one is named."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from appointments.timeout import TimeoutJob
from core import clock, tracing
from core.ids import new_id
from crm.job import CrmSyncJob
from outbox import topics
from outbox.models import OutboxMessage
from outbox.relay import RelayJob
from tests import kafka_reader
from tests.dev.processes import ROOT
from tests.factories import MINUTE, an_overdue_appointment
from tests.waiting import eventually
from workers import loop
from workers.job import Job
from workers.loop import Pace
from workers.reporting import Reporter, Turn
from workers.stopping import Stop
from workers.topics import ensure


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What this process traces from here on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    return exporter


def turn(job: Job[Any]) -> Turn:
    pace = Pace(interval=60, batch_size=500, max_duration=30)
    return loop.turn(job, pace=pace, stop=Stop(beat=lambda: None), reporter=Reporter(job, registry=CollectorRegistry()))


@pytest.mark.django_db(transaction=True)
def test_the_trace_of_a_cycle_goes_on_in_the_consumer(
    bootstrap: str, settings: Any, spans: InMemorySpanExporter
) -> None:
    ensure(topics.names())
    prefix = f"traces-{new_id()}-"
    kafka_reader.skip_history(bootstrap, topics.names(), group=f"{prefix}crm-sync")
    settings.ENV = settings.ENV.model_copy(update={"kafka_consumer_group_prefix": prefix})
    appointment = an_overdue_appointment(pending_expires_at=clock.now() - MINUTE)

    expired = turn(TimeoutJob())
    with closing(RelayJob()) as relay:
        assert turn(relay).counts["published"] == OutboxMessage.objects.count() == 2
    with closing(CrmSyncJob()) as consumer:
        eventually(lambda: turn(consumer).counts.get("handled_count"), "the consumer has its message", timeout=30)

    by_name = {span.name: span for span in spans.get_finished_spans()}
    cycle, item = by_name["appointment-timeout cycle"], by_name["expire appointments"]
    message = by_name["crm-sync message"]
    assert _trace(cycle) == _trace(item) == _trace(message)
    assert (_parent(item), _parent(message)) == (_id(cycle), _id(item))
    assert dict(cycle.attributes or {}) == {"run_id": str(expired.run_id)}
    assert dict(item.attributes or {}) == {"tenant_id": str(appointment.tenant_id)}
    for row in OutboxMessage.objects.all():
        _version, trace_id, span_id, _flags = (row.traceparent or "").split("-")
        assert (int(trace_id, 16), int(span_id, 16)) == (_trace(cycle), _id(item))


@pytest.mark.django_db
def test_without_a_collector_nothing_is_traced_and_messages_carry_no_trace() -> None:
    an_overdue_appointment(pending_expires_at=clock.now() - MINUTE)

    turn(TimeoutJob())

    assert {row.traceparent for row in OutboxMessage.objects.all()} == {None}


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is posted."""

    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[http.server.HTTPServer]:
    monkeypatch.setattr(Collector, "received", [], raising=False)
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_process_sends_its_spans_to_the_collector_that_is_named(collector: http.server.HTTPServer) -> None:
    code = "import config.settings\nfrom core import tracing\nwith tracing.span('a span of this test'): pass"
    environ = os.environ | {"OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}"}

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, check=True, timeout=60)

    [(path, body)] = Collector.received
    assert path == "/v1/traces"
    assert b"a span of this test" in body
    assert b"pin-calendar" in body


def _trace(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def _parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None
