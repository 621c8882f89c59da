//! Skips what was applied before, for effects that no database transaction covers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    EventId, Handled, HandlerError, IdempotencyStore, Owner, Reservation, StoreError,
};
use tokio::time::Instant;

use crate::consumer::{Context, Middleware, Next};
use crate::failpoints;
use crate::lines::cut;

/// Reserves the event, keeps the reservation while the rest of the chain runs, and marks it done after success.
///
/// Only an event that is done is skipped. One that is reserved elsewhere is given back, because whoever has it may
/// still fail. A crash leaves a reservation that runs out, so no effect is lost.
pub struct RedisIdempotency {
    store: Arc<dyn IdempotencyStore>,
    /// How long a done event is remembered. Default 720 h.
    pub ttl: Duration,
    /// How long a reservation lasts without renewal, and so how long an event waits after a crash. It is renewed
    /// three times per lease. Default 30 s.
    pub lease: Duration,
    pub while_down: WhileDown,
}

/// What happens to deliveries while the store does not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhileDown {
    /// They are given back until it does.
    #[default]
    GiveBack,
    /// They are handled unprotected: duplicates have their effects again.
    Handle,
}

impl RedisIdempotency {
    pub fn new(store: impl IdempotencyStore) -> Self {
        Self {
            store: Arc::new(store),
            ttl: Duration::from_secs(720 * 3600),
            lease: Duration::from_secs(30),
            while_down: WhileDown::default(),
        }
    }

    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    #[must_use]
    pub fn while_down(mut self, choice: WhileDown) -> Self {
        self.while_down = choice;
        self
    }
}

#[async_trait]
impl Middleware for RedisIdempotency {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        ctx.opened()?;
        let Some(event_id) = ctx.event_id().cloned() else {
            return Err(HandlerError::permanent(
                "idempotency: message has no event id",
            ));
        };
        let consumer = ctx.consumer_name();
        let reserved = self.store.reserve(&consumer, &event_id, self.lease).await;
        let owner = match reserved {
            Ok(Reservation::First(owner)) => owner,
            Ok(Reservation::Done) => return Ok(Handled::Duplicate),
            Ok(Reservation::Busy) => {
                return Err(HandlerError::deferred(
                    "the event is being handled elsewhere",
                ));
            }
            Err(error) if self.while_down == WhileDown::Handle => {
                tracing::warn!(event_id = &*cut(event_id.as_str()), reason = %error, "handled without idempotency");
                return next.run(ctx).await;
            }
            // Whatever is wrong with the store is no fault of the event.
            Err(error) => return Err(HandlerError::unavailable(error)),
        };
        failpoints::reach(failpoints::RESERVED);
        let ours = Ours {
            idempotency: self,
            consumer: &consumer,
            event_id: &event_id,
            owner,
        };
        ours.run(ctx, next).await
    }
}

/// A reservation that is ours.
struct Ours<'a> {
    idempotency: &'a RedisIdempotency,
    consumer: &'a str,
    event_id: &'a EventId,
    owner: Owner,
}

impl Ours<'_> {
    async fn run(self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let result = tokio::select! {
            result = next.run(ctx) => result,
            // Dropping the rest of the chain abandons it, which is what a reservation that went to somebody
            // else demands.
            error = self.keep() => Err(error),
        };
        match result {
            Ok(Handled::DeadLettered) | Err(_) => {
                self.release().await;
                result
            }
            Ok(handled) => {
                self.confirm().await;
                Ok(handled)
            }
        }
    }

    /// Renews until it cannot any more; then it says why.
    async fn keep(&self) -> HandlerError {
        let lease = self.idempotency.lease;
        let mut safe_until = Instant::now() + lease;
        loop {
            tokio::time::sleep(lease / 3).await;
            let asked = Instant::now();
            match self
                .store()
                .renew(self.consumer, self.event_id, &self.owner, lease)
                .await
            {
                Ok(true) => safe_until = asked + lease,
                Ok(false) => {
                    return HandlerError::deferred("the reservation of the event was lost");
                }
                Err(error) if Instant::now() + lease / 3 >= safe_until => {
                    return HandlerError::unavailable(error);
                }
                Err(_) => {}
            }
        }
    }

    /// The effects are there, so the delivery is done with even if that cannot be written down. A duplicate
    /// that comes later would then have its effects again, as after a loss of the store's data.
    async fn confirm(&self) {
        let until = Instant::now() + self.idempotency.lease / 2;
        let ttl = self.idempotency.ttl;
        let problem = loop {
            match self
                .store()
                .confirm(self.consumer, self.event_id, &self.owner, ttl)
                .await
            {
                Ok(true) => return,
                Ok(false) => break "the reservation had run out and belongs to another".to_owned(),
                Err(StoreError::Unavailable { .. }) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => break error.to_string(),
            }
        };
        tracing::warn!(
            consumer = self.consumer,
            event_id = &*cut(self.event_id.as_str()),
            problem,
            "an applied event could not be marked as done; a duplicate of it would be applied again"
        );
    }

    /// Without an answer the reservation runs out by itself.
    async fn release(&self) {
        if let Err(error) = self
            .store()
            .release(self.consumer, self.event_id, &self.owner)
            .await
        {
            tracing::debug!(event_id = &*cut(self.event_id.as_str()), reason = %error, "reservation not released");
        }
    }

    fn store(&self) -> &dyn IdempotencyStore {
        &*self.idempotency.store
    }
}
