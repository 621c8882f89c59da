//! The seam to brokers on the consuming side: deliveries in, each acknowledged or given back.

use std::time::Duration;

use async_trait::async_trait;

use crate::{BoxError, Message, Timestamp};

/// A message at a consumer. Whoever holds it decides its end: [`Self::ack`] when its effects are safe, else
/// [`Self::nack`]. Dropped without either, it is given back at once, as by a crash.
pub struct Delivery {
    pub message: Message,
    /// When the broker took the message, where it says so.
    pub published_at: Option<Timestamp>,
    /// 1 for the first delivery. Brokers that do not count start again at 1 with the process.
    pub attempt: u32,
    /// Where the broker keeps it, for logs: `orders[3]@17` or a message id.
    pub position: String,
    receipt: Option<Box<dyn Receipt>>,
}

impl Delivery {
    pub fn new(
        message: Message,
        attempt: u32,
        position: String,
        receipt: Box<dyn Receipt>,
    ) -> Self {
        Self {
            message,
            published_at: None,
            attempt,
            position,
            receipt: Some(receipt),
        }
    }

    /// Says that the message is done with. Has no effect on a delivery that was settled already.
    pub fn ack(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            receipt.ack();
        }
    }

    /// Gives the message back, to be delivered again when `after` has passed, at the earliest.
    pub fn nack(&mut self, after: Duration) {
        if let Some(receipt) = self.receipt.take() {
            receipt.nack(after);
        }
    }

    pub fn is_settled(&self) -> bool {
        self.receipt.is_none()
    }

    /// Resolves when the broker has taken the message away, to give it to somebody else: its partition was
    /// revoked or its lease could not be kept. What is going on with it should be abandoned; settling it has no
    /// effect any more.
    pub async fn lost(&self) {
        match &self.receipt {
            Some(receipt) => receipt.lost().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.nack(Duration::ZERO);
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("topic", &self.message.topic)
            .field("position", &self.position)
            .field("attempt", &self.attempt)
            .field("settled", &self.is_settled())
            .finish_non_exhaustive()
    }
}

/// A subscription's side of a delivery. Settling only notes what is to happen: it does not block.
#[async_trait]
pub trait Receipt: Send + Sync {
    fn ack(self: Box<Self>);
    fn nack(self: Box<Self>, after: Duration);
    /// See [`Delivery::lost`].
    async fn lost(&self);
}

/// Where a consumer gets its deliveries.
#[async_trait]
pub trait Subscription: Send + Sync {
    /// Waits for deliveries and gives up to `max` of them; never none.
    ///
    /// * A message is delivered until it is acknowledged: after a nack, a dropped delivery, a crash or a
    ///   restart it comes again, with `attempt` counted up where that is known.
    /// * With order per key, no delivery is given while an earlier one of its topic and key is unsettled in
    ///   another call's result, or was given back and is not delivered again yet. Within one result
    ///   deliveries of one key stand in order; whoever nacks one must nack the later ones of its key too, and
    ///   settle none of them as done.
    /// * What is fetched and not settled is bounded, by count and by bytes; at the bound it waits.
    /// * Calls may run concurrently. Cancelling a call loses nothing.
    /// * An error is worth another call, after a pause, unless it is [`SubscribeError::Closed`].
    async fn next(&self, max: usize) -> Result<Vec<Delivery>, SubscribeError>;

    /// Whether the broker can be reached and lets us in. For readiness, never needed for correctness.
    async fn ping(&self) -> Result<(), SubscribeError>;

    /// How many messages wait at the broker for this subscription, where it can tell.
    async fn lag(&self) -> Option<u64>;

    /// Gives nothing more, waits until what was given is settled or `deadline` has passed, tells the broker what
    /// was acknowledged, gives back the rest and leaves. `next` is [`SubscribeError::Closed`] from then on.
    async fn close(&self, deadline: Duration);
}

/// Why there are no deliveries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    #[error("broker unavailable: {reason}")]
    Unavailable {
        reason: String,
        #[source]
        source: Option<BoxError>,
    },
    #[error("broker refuses the subscription: {reason}")]
    Refused { reason: String },
    #[error("the subscription is closed")]
    Closed,
}

impl SubscribeError {
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self::Unavailable {
            reason: crate::text::chain(&*source),
            source: Some(source),
        }
    }
}
