//! Tries again, in the process, what may succeed in a moment.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Backoff, EventId, Handled, HandlerError};

use crate::consumer::{Context, Middleware, Next};
use crate::lines::cut_some;

/// Repeats the rest of the chain after a temporary error, with growing waits, a bounded number of times. What
/// is left then is given back by `Ack`, or dead-lettered where `DeadLetter` says so. The key waits meanwhile,
/// so that its order is kept; other keys go on.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Tries in all, the first included. Default 5.
    pub tries: u32,
    /// Default 100 ms to 10 s, with jitter.
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: 5,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(10)),
        }
    }
}

impl Retry {
    /// The default waits with another number of tries.
    pub fn tries(tries: u32) -> Self {
        Self {
            tries,
            ..Self::default()
        }
    }
}

#[async_trait]
impl Middleware for Retry {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let _over = ctx.tries_end_here();
        let mut tried = 1;
        loop {
            ctx.set_last_try(tried >= self.tries);
            let error = match next.run(ctx).await {
                Err(HandlerError::Temporary(error)) if tried < self.tries => error,
                other => return other,
            };
            let wait = self.backoff.random_delay(tried);
            let error = HandlerError::Temporary(error);
            tracing::info!(
                target: "postrider::event",
                consumer = ctx.consumer(), event_id = cut_some(ctx.event_id().map(EventId::as_str)).as_deref(),
                position = ctx.position(), tried, ?wait, %error, "failed, is tried again"
            );
            ctx.metrics().retried();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // A stop does not wait for a retry, nor is it a reason to bury the event.
                () = ctx.stopping() => {
                    return Err(HandlerError::deferred("the consumer stops between two tries"));
                }
            }
            tried += 1;
        }
    }
}
