//! Puts what cannot be handled into a dead-letter topic, before it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{
    EventId, Failure, Handled, HandlerError, Header, Message, ParkedKeys, PublishError, Publisher,
    Timestamp, Topic, text,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::consumer::{Context, Middleware, Next};
use crate::lines::{cut, cut_some};

/// How long the broker may take for a dead letter.
const PUBLISH_DEADLINE: Duration = Duration::from_secs(10);

/// Sends a permanent failure to `{topic}.dlt` at once and, where so configured, a temporary one when its tries are
/// used up. What was dead-lettered counts as handled, and is not recorded as processed: sent again, it runs.
///
/// While the dead-letter topic cannot be reached, the delivery is given back. An outage is never dead-lettered.
pub struct DeadLetter {
    publisher: Arc<dyn Publisher>,
    topic: Arc<dyn Fn(&Topic) -> Topic + Send + Sync>,
    service: Option<String>,
    exhausted: bool,
    shape: Shape,
    parked: Option<Arc<dyn ParkedKeys>>,
}

/// What a dead letter's body looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// `eventId, originalEvent, errorMessage, failedAt, consumerService` at the top.
    #[default]
    Flat,
    /// The same fields within `data`.
    InData,
}

impl DeadLetter {
    pub fn new(publisher: Arc<dyn Publisher>) -> Self {
        Self {
            publisher,
            topic: Arc::new(|topic| Topic::from(format!("{topic}.dlt"))),
            service: None,
            exhausted: false,
            shape: Shape::default(),
            parked: None,
        }
    }

    /// Another rule for the name of the dead-letter topic.
    #[must_use]
    pub fn topic(mut self, rule: impl Fn(&Topic) -> Topic + Send + Sync + 'static) -> Self {
        self.topic = Arc::new(rule);
        self
    }

    /// What `consumerService` says; by default the consumer's name.
    #[must_use]
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Also takes what failed temporarily until `Retry` gave up, instead of giving it back to the broker.
    #[must_use]
    pub fn when_exhausted(mut self) -> Self {
        self.exhausted = true;
        self
    }

    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Keeps the order of a key after a dead letter: its later events follow into the dead-letter topic, in order,
    /// until an operator frees the key. Without this they are handled as if nothing had happened.
    #[must_use]
    pub fn park(mut self, keys: impl ParkedKeys) -> Self {
        self.parked = Some(Arc::new(keys));
        self
    }
}

#[async_trait]
impl Middleware for DeadLetter {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        if self.is_parked(ctx).await? {
            // In the order of the key, also where several of it came together.
            if let Some(seat) = ctx.seat()
                && !seat.aside_after_key().await
            {
                return Err(HandlerError::deferred(
                    "an earlier event of the same key was not handled",
                ));
            }
            return self.bury(ctx, PARKED).await;
        }
        match next.run(ctx).await {
            Err(HandlerError::Permanent(error)) => self.bury(ctx, &text::chain(&*error)).await,
            Err(HandlerError::Temporary(error)) if self.exhausted && ctx.is_last_try() => {
                self.bury(ctx, &text::chain(&*error)).await
            }
            other => other,
        }
    }
}

const PARKED: &str = "an earlier event of this key was dead-lettered and the key is parked";

impl DeadLetter {
    async fn is_parked(&self, ctx: &Context) -> Result<bool, HandlerError> {
        let message = ctx.message();
        match (&self.parked, &message.key) {
            (Some(keys), Some(key)) => Ok(keys
                .is_parked(ctx.consumer(), message.topic.as_str(), key.as_bytes())
                .await?),
            _ => Ok(false),
        }
    }

    async fn bury(&self, ctx: &Context, error: &str) -> Result<Handled, HandlerError> {
        let message = ctx.message();
        // Parked first: if we die in between, the key waits for nothing but itself, and no later event
        // overtakes the dead one.
        if let (Some(keys), Some(key)) = (&self.parked, &message.key)
            && error != PARKED
        {
            let topic = message.topic.as_str();
            keys.park(ctx.consumer(), topic, key.as_bytes(), error)
                .await?;
            ctx.note_parked_key();
        }
        let letter = self.letter(ctx, error);
        let mut sent = self.send(letter).await;
        if matches!(sent, Err(PublishError::TooLarge { .. })) {
            // The frame around the original was too much for the broker; its bytes alone were not.
            sent = self.send(self.raw_letter(ctx, error)).await;
        }
        match sent {
            Ok(()) => {
                tracing::error!(
                    target: "postrider::event",
                    consumer = ctx.consumer(), event_id = cut_some(ctx.event_id().map(EventId::as_str)).as_deref(),
                    topic = &*cut(message.topic.as_str()), position = ctx.position(), error, "dead-lettered"
                );
                Ok(Handled::DeadLettered)
            }
            Err(problem) if problem.failure() == Failure::Permanent => {
                Err(HandlerError::temporary(format!(
                    "{error}; and it cannot be dead-lettered: {}",
                    text::chain(&problem)
                )))
            }
            Err(problem) => Err(HandlerError::unavailable(problem)),
        }
    }

    async fn send(&self, letter: Message) -> Result<(), PublishError> {
        let sent = self.publisher.publish(&[letter], PUBLISH_DEADLINE).await;
        sent.into_iter()
            .next()
            .unwrap_or(Err(PublishError::Untried))
    }

    /// The original framed in JSON, or as it is where it is not JSON.
    fn letter(&self, ctx: &Context, error: &str) -> Message {
        let mut letter = self.raw_letter(ctx, error);
        let body = ctx.message().payload.as_deref().unwrap_or_default();
        let Ok(original) = serde_json::from_slice::<&RawValue>(body) else {
            return letter;
        };
        let fields = Fields {
            event_id: ctx.event_id().map(|id| id.as_str()),
            original_event: original,
            error_message: error,
            failed_at: Timestamp::now().to_string(),
            consumer_service: self.service_name(ctx),
        };
        let framed = match self.shape {
            Shape::Flat => serde_json::to_vec(&fields),
            Shape::InData => serde_json::to_vec(&InData { data: fields }),
        };
        if let Ok(framed) = framed {
            letter.payload = Some(Bytes::from(framed));
        }
        letter
    }

    /// The original's bytes, key and headers, and what happened in headers beside them.
    fn raw_letter(&self, ctx: &Context, error: &str) -> Message {
        let message = ctx.message();
        let mut letter = message.clone();
        letter.topic = (self.topic)(&message.topic);
        // Pub/Sub adds some of its own, and takes none.
        letter
            .headers
            .retain(|header| !header.name.starts_with("goog"));
        let mut note = |name: &'static str, value: String| {
            letter.headers.retain(|header| &*header.name != name);
            letter.headers.push(Header::new(name, value));
        };
        if let Some(id) = ctx.event_id() {
            note("dlt_event_id", id.to_string());
        }
        note("dlt_error_message", text::bounded(error, HEADER_BYTES_MAX));
        note("dlt_failed_at", Timestamp::now().to_string());
        note("dlt_consumer_service", self.service_name(ctx).to_owned());
        note("dlt_original_topic", message.topic.to_string());
        note("dlt_original_position", ctx.position().to_owned());
        letter
    }

    fn service_name<'a>(&'a self, ctx: &'a Context) -> &'a str {
        self.service.as_deref().unwrap_or(ctx.consumer())
    }
}

/// Pub/Sub takes no longer attribute.
const HEADER_BYTES_MAX: usize = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    event_id: Option<&'a str>,
    original_event: &'a RawValue,
    error_message: &'a str,
    failed_at: String,
    consumer_service: &'a str,
}

#[derive(Serialize)]
struct InData<'a> {
    data: Fields<'a>,
}
