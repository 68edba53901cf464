"""Spans and the W3C trace context that travels on outbox rows; next to free without OTLP configured."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_tracer = trace.get_tracer("pin_calendar")
_propagator = TraceContextTextMapPropagator()


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """A span around the block; attributes are ids and stable words only."""
    with _tracer.start_as_current_span(name, attributes=attributes):
        yield


@contextmanager
def continued_span(name: str, *, parent: str | None, **attributes: str) -> Iterator[None]:
    """A span around the block, within the trace of a `traceparent` header when there is a valid one."""
    context = _propagator.extract({"traceparent": parent}) if parent else None
    with _tracer.start_as_current_span(name, context=context, attributes=attributes):
        yield


def traceparent() -> str | None:
    """The current trace context as a `traceparent` header value, or None when nothing is being traced."""
    if not trace.get_current_span().get_span_context().is_valid:
        return None
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent")


def configure(*, otlp_endpoint: str, service_name: str) -> None:
    """Send spans to a collector at `otlp_endpoint` (OTLP over HTTP, its base URL)."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    exporter = OTLPSpanExporter(endpoint=f"{otlp_endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
