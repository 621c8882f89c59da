//! Acknowledges what was handled and gives back what was not.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Backoff, Handled, HandlerError};

use crate::consumer::{Context, Middleware, Next};

/// Acknowledges a delivery after success, and after a duplicate or a dead letter; gives it back on an error, to
/// come again after a growing wait. Stands first, so that everything has happened before the broker is told.
#[derive(Debug, Clone)]
pub struct Ack {
    /// The wait by delivery attempt. Default 1 s to 60 s.
    pub backoff: Backoff,
    /// The wait of deliveries that were not tried. Default 200 ms.
    pub deferred: Duration,
}

impl Default for Ack {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)),
            deferred: Duration::from_millis(200),
        }
    }
}

#[async_trait]
impl Middleware for Ack {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let result = next.run(ctx).await;
        match &result {
            Ok(_) => ctx.ack(),
            Err(HandlerError::Deferred(_)) => ctx.nack(self.deferred),
            Err(_) => ctx.nack(self.backoff.random_delay(ctx.attempt())),
        }
        result
    }
}
