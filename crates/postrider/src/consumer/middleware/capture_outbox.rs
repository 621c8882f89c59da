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
    /// Says in headers and metadata, where there is room, what the event follows from. What the handler said itself
    /// stays.
    fn note_cause<T>(&self, event: &mut Event, ctx: &Context<T>)
    where
        O: OutboxWriter<T>,
    {
        let room = self.outbox.room();
        let opened = ctx.try_opened().as_ref().ok();
        let cause = ctx.event_id().map(|id| id.as_str());
        // A current span of ours, where spans are exported, is nearer; the emit itself writes that.
        let parent = opened
            .and_then(|opened| opened.traceparent.as_deref())
            .filter(|_| crate::trace::current().is_none());
        if room.headers {
            let mut note = |name: &str, value: Option<&str>| {
                let said = event.headers.iter().any(|(said, _)| said == name);
                if let Some(value) = value.filter(|_| !said) {
                    event.headers.push((name.into(), value.into()));
                }
            };
            note("causation_id", cause);
            note("traceparent", parent);
        }
        if room.metadata {
            let mut note = |name: &str, value: Option<serde_json::Value>| {
                if let Some(value) = value {
                    event.metadata.entry(name).or_insert(value);
                }
            };
            let correlation = opened.and_then(|opened| opened.metadata.get("correlationId"));
            note("causationId", cause.map(Into::into));
            note("correlationId", correlation.cloned());
            note("traceparent", parent.map(Into::into));
            note(
                "traceId",
                parent
                    .and_then(|parent| parent.split('-').nth(1))
                    .map(Into::into),
            );
        }
    }
}
