// Spans, in the traces that events come with. They go to an OpenTelemetry collector where there is
// one; trace ids are in log lines and events in any case.
'use strict';
const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = require('@opentelemetry/api');
const { W3CTraceContextPropagator } = require('@opentelemetry/core');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');

const propagator = new W3CTraceContextPropagator();
const getter = { get: (carrier, name) => carrier[name], keys: Object.keys };
const setter = { set: (carrier, name, value) => { carrier[name] = value; } };

/** `tracer` makes spans; `stop` sends those that are left. */
function startTracing(service, collector) {
  const spanProcessors = [];
  if (collector) {
    // Loaded here, since it is large.
    const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-grpc');
    spanProcessors.push(new BatchSpanProcessor(new OTLPTraceExporter({ url: collector })));
  }
  const resource = resourceFromAttributes({ 'service.name': service });
  const provider = new BasicTracerProvider({ resource, spanProcessors });
  return { tracer: provider.getTracer(service), stop: () => provider.shutdown() };
}

/**
 * A span that follows from the one that `traceparent` (W3C) names. A new trace where it names
 * none.
 */
function startSpan(tracer, name, kind, traceparent, attributes) {
  const parent = propagator.extract(ROOT_CONTEXT, { traceparent }, getter);
  return tracer.startSpan(name, { kind, attributes }, parent);
}

const startConsume = (tracer, traceparent, attributes) =>
  startSpan(tracer, 'consume', SpanKind.CONSUMER, traceparent, attributes);
const startPublish = (tracer, traceparent, attributes) =>
  startSpan(tracer, 'publish', SpanKind.PRODUCER, traceparent, attributes);

function fail(span, error) {
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
}

/** Where a span is, for those that follow from it. */
function contextOf(span) {
  const carrier = {};
  propagator.inject(trace.setSpan(ROOT_CONTEXT, span), carrier, setter);
  return { traceId: span.spanContext().traceId, traceparent: carrier.traceparent };
}

/** The trace that a message is in: its header says it, else its envelope. */
function traceparentOf(message, metadata) {
  const header = message.headers?.traceparent?.toString();
  const stored = metadata?.traceparent;
  return header ?? (typeof stored === 'string' ? stored : undefined);
}

module.exports = { startTracing, startConsume, startPublish, fail, contextOf, traceparentOf };
