//! A span per delivery, in the trace that the event came with.

use async_trait::async_trait;
use postrider_core::{EventId, Handled, HandlerError};
use tracing::Instrument as _;

use crate::consumer::{Context, Middleware, Next};
use crate::lines::{cut, cut_some};

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
            topic = &*cut(ctx.message().topic.as_str()),
            position = ctx.position(),
            event_id = cut_some(ctx.event_id().map(EventId::as_str)).as_deref(),
            event_type = cut_some(opened.and_then(|it| it.event_type.as_deref())).as_deref(),
            aggregate_type =
                cut_some(opened.and_then(|it| it.aggregate_type.as_deref())).as_deref(),
            aggregate_id = cut_some(opened.and_then(|it| it.aggregate_id.as_deref())).as_deref(),
            trace_id = cut_some(opened.and_then(|it| it.trace_id())).as_deref(),
            attempt = ctx.attempt(),
        );
        if let Some(parent) = traceparent {
            crate::trace::set_parent(&span, parent);
        }
        next.run(ctx).instrument(span).await
    }
}
