//! The trace that the caller is in, where the `otel` feature is on.

use crate::sql::draft::Trace;

#[cfg(feature = "otel")]
pub(crate) fn current() -> Option<Trace> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| Trace {
        trace_id: span.trace_id().to_string(),
        traceparent: format!(
            "00-{}-{}-{:02x}",
            span.trace_id(),
            span.span_id(),
            span.trace_flags()
        ),
    })
}

#[cfg(not(feature = "otel"))]
pub(crate) fn current() -> Option<Trace> {
    None
}
