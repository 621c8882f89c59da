//! The trace that an event belongs to: taken up from its W3C trace parent, and told onward. Without the
//! `otlp` feature there are no traces, and both do nothing.

/// Makes a span the child of the one that a trace parent names. What is no trace parent, a span that was
/// entered before, and a process that exports no traces leave the span as it is.
#[cfg(feature = "otlp")]
pub(crate) fn set_parent(span: &tracing::Span, traceparent: &str) {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = w3c::read(traceparent);
    if context.span().span_context().is_valid()
        && let Err(error) = span.set_parent(context)
    {
        tracing::trace!(%error, "span does not continue its event's trace");
    }
}

/// The current span as a trace parent, for what is sent from within it.
#[cfg(feature = "otlp")]
pub(crate) fn current() -> Option<String> {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    w3c::write(&tracing::Span::current().context())
}

#[cfg(not(feature = "otlp"))]
pub(crate) fn set_parent(_span: &tracing::Span, _traceparent: &str) {}

#[cfg(not(feature = "otlp"))]
pub(crate) fn current() -> Option<String> {
    None
}

#[cfg(feature = "otlp")]
pub(crate) mod w3c {
    //! W3C trace context as text. The SDK knows the format; it wants a map of headers.

    use std::collections::HashMap;

    use opentelemetry::Context;
    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry_sdk::propagation::TraceContextPropagator;

    const TRACEPARENT: &str = "traceparent";

    pub(crate) fn read(traceparent: &str) -> Context {
        let headers = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
        // Not the current context: a text that is no trace parent must not continue whatever runs here.
        TraceContextPropagator::new().extract_with_context(&Context::new(), &headers)
    }

    pub(crate) fn write(context: &Context) -> Option<String> {
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(context, &mut headers);
        headers.remove(TRACEPARENT)
    }
}

#[cfg(all(test, feature = "otlp"))]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Runs where spans have a trace.
    fn traced<T>(run: impl FnOnce() -> T) -> T {
        let tracer = SdkTracerProvider::builder().build().tracer("tests");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run)
    }

    fn told_from_within(traceparent: &str) -> String {
        let span = tracing::info_span!("consume");
        set_parent(&span, traceparent);
        span.in_scope(current).expect("a trace")
    }

    #[test]
    fn a_span_continues_the_trace_of_its_event_as_a_span_of_its_own() {
        let told = traced(|| told_from_within(PARENT));
        assert!(told.starts_with(&format!("00-{TRACE}-")), "{told}");
        assert!(told.ends_with("-01") && told != PARENT, "{told}");
    }

    #[test]
    fn a_trace_that_its_producer_does_not_sample_stays_unsampled() {
        let told = traced(|| told_from_within(&PARENT.replace("-01", "-00")));
        assert!(told.contains(TRACE) && told.ends_with("-00"), "{told}");
    }

    #[test]
    fn what_is_no_trace_parent_starts_a_trace_of_its_own() {
        for text in [
            "",
            TRACE,
            "00-0-0-0",
            "no trace",
            "00-éééé-00f067aa0ba902b7-01",
        ] {
            let told = traced(|| told_from_within(text));
            assert!(!told.contains(TRACE), "{text}: {told}");
        }
    }

    #[test]
    fn nothing_is_told_where_there_is_no_trace() {
        assert_eq!(current(), None);
        let span = tracing::info_span!("consume");
        set_parent(&span, PARENT);
        assert_eq!(span.in_scope(current), None);
        assert_eq!(traced(current), None);
    }
}
