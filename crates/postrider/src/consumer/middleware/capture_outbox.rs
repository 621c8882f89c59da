//! Turns what a handler returns into outbox records of the same transaction.

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{Event, Handled, HandlerError, OutboxWriter};
use tokio::sync::Notify;

use crate::consumer::{Context, Middleware, Next};

/// Records the handler's outputs, with the incoming event's id as their cause where the outbox has room for it.
/// They leave by the relay and no other way.
pub struct CaptureOutbox<O> {
    outbox: Arc<O>,
    topic: Option<String>,
    wake: Option<Arc<Notify>>,
}

impl<O> CaptureOutbox<O> {
    pub fn new(outbox: O) -> Self {
        Self {
            outbox: Arc::new(outbox),
            topic: None,
            wake: None,
        }
    }

    /// Where outputs go that name no topic of their own, for outboxes that store one.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Tells a relay in this process, after the commit, that there are new records.
    #[must_use]
    pub fn wake(mut self, relay: Arc<Notify>) -> Self {
        self.wake = Some(relay);
        self
    }
}

#[async_trait]
impl<T: Send + 'static, O: OutboxWriter<T>> Middleware<T> for CaptureOutbox<O> {
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError> {
        let handled = next.run(ctx).await?;
        let mut outputs = ctx.take_outputs();
        if outputs.is_empty() {
            return Ok(handled);
        }
        for event in &mut outputs {
            event.topic = event.topic.take().or_else(|| self.topic.clone());
            self.note_cause(event, ctx);
        }
        self.outbox.enqueue(ctx.tx(), &outputs).await?;
        if let Some(wake) = self.wake.clone() {
            ctx.on_commit(move || wake.notify_one());
        }
        Ok(handled)
    }
}

impl<O> CaptureOutbox<O> {
    fn note_cause<T>(&self, event: &mut Event, ctx: &Context<T>)
    where
        O: OutboxWriter<T>,
    {
        let room = self.outbox.room();
        let opened = ctx.try_opened().as_ref().ok();
        let cause = ctx.event_id().map(ToString::to_string);
        let correlation = opened
            .and_then(|opened| opened.metadata.get("correlationId"))
            .cloned();
        if room.metadata {
            if let Some(cause) = &cause {
                let noted = event.metadata.entry("causationId");
                noted.or_insert_with(|| cause.clone().into());
            }
            if let Some(correlation) = correlation {
                event.metadata.entry("correlationId").or_insert(correlation);
            }
        }
        let has =
            |event: &Event, wanted: &str| event.headers.iter().any(|(name, _)| name == wanted);
        if room.headers {
            if let Some(cause) = cause.filter(|_| !has(event, "causation_id")) {
                event.headers.push(("causation_id".into(), cause));
            }
            let parent = opened.and_then(|opened| opened.traceparent.clone());
            // A current span of ours, where spans are exported, is nearer; the emit itself writes that.
            if let Some(parent) =
                parent.filter(|_| crate::trace::current().is_none() && !has(event, "traceparent"))
            {
                event.headers.push(("traceparent".into(), parent));
            }
        }
    }
}
