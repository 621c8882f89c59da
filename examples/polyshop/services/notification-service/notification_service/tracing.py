"""Spans, in the traces that events come with.

They go to an OpenTelemetry collector where there is one; trace ids are in log lines and events in
any case.
"""

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PROPAGATOR = TraceContextTextMapPropagator()
CONSUMER, PRODUCER = trace.SpanKind.CONSUMER, trace.SpanKind.PRODUCER


def start_tracing(service, collector=""):
    """What makes tracers; its `shutdown` sends the spans that are left."""
    provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
    if collector:
        # Loaded here, since it is large.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector)))
    return provider


def start_span(tracer, name, kind, traceparent, **attributes):
    """A span after the one that `traceparent` (W3C) names. A new trace where it names none."""
    carrier = {"traceparent": traceparent} if traceparent else {}
    parent = PROPAGATOR.extract(carrier, Context())
    told = {name: value for name, value in attributes.items() if value is not None}
    return tracer.start_span(name, parent, kind, told)


def failed(span, error):
    span.set_status(trace.StatusCode.ERROR, error)


def context_of(span):
    """Where a span is, for those that follow from it: traceId and traceparent."""
    carrier = {}
    PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return {
        "traceId": trace.format_trace_id(span.get_span_context().trace_id),
        "traceparent": carrier["traceparent"],
    }
