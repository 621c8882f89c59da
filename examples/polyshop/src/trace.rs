//! The trace of an HTTP request: its caller's where it names one (W3C `traceparent`), else a new one.

use std::collections::HashMap;

use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::field::{Empty, display};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

pub(crate) const TRACEPARENT: &str = "traceparent";

/// A span for a request, with the trace id in its log lines. What is emitted within it belongs to its trace.
pub(crate) fn request(name: &str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        "request",
        otel.name = name,
        otel.kind = "server",
        trace_id = Empty,
    );
    let caller = caller(headers);
    if caller.span().span_context().is_valid()
        && let Err(error) = span.set_parent(caller)
    {
        tracing::debug!(%error, "request does not continue its caller's trace");
    }
    let trace_id = span.context().span().span_context().trace_id();
    span.record("trace_id", display(trace_id));
    span
}

/// The `traceparent` for a request that is sent from within a span.
pub(crate) fn parent(span: &Span) -> Option<String> {
    let mut carried = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carried);
    carried.remove(TRACEPARENT)
}

fn caller(headers: &HeaderMap) -> Context {
    let value = headers
        .get(TRACEPARENT)
        .and_then(|value| value.to_str().ok());
    let carried: HashMap<String, String> = value
        .map(|value| (TRACEPARENT.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carried)
}
