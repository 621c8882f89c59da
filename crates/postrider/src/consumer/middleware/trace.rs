//! A span per delivery, in the trace that the event came with.

use async_trait::async_trait;
use postrider_core::{Handled, HandlerError};
use tracing::Instrument as _;

use crate::consumer::{Context, Middleware, Next};

/// Opens a span around the rest of the chain. Its parent is the producer's span, where the message carries W3C
/// trace context and the `otlp` feature is on; every log line of the handler then has the event's ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trace;

#[async_trait]
impl Middleware for Trace {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let opened = ctx.try_opened().as_ref().ok();
        let traceparent = opened.and_then(|opened| opened.traceparent.as_deref());
        let span = tracing::info_span!(
            "consume",
            otel.kind = "consumer",
            consumer = ctx.consumer(),
            topic = %ctx.message().topic,
            position = ctx.position(),
            event_id = ctx.event_id().map(tracing::field::display),
            event_type = opened.and_then(|opened| opened.event_type.as_deref()),
            aggregate_type = opened.and_then(|opened| opened.aggregate_type.as_deref()),
            aggregate_id = opened.and_then(|opened| opened.aggregate_id.as_deref()),
            trace_id = opened.and_then(|opened| opened.trace_id()),
            attempt = ctx.attempt(),
        );
        if let Some(parent) = traceparent {
            crate::trace::set_parent(&span, parent);
        }
        next.run(ctx).instrument(span).await
    }
}
