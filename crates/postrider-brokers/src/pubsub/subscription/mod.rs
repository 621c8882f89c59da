//! A Pub/Sub subscription, over Google's streaming client.
//!
//! * While a delivery is in hand or waits here, the client keeps its lease, for `lease_max_secs` at most: then
//!   [`Delivery::lost`](postrider_core::Delivery::lost) resolves and the service delivers it again. That a lease was lost
//!   because the service could not be reached for so long is not told by the client; such a message comes twice.
//! * A nacked message stays here for the time that was asked for and is then given back to the service, together
//!   with everything of its ordering key that waits here. The service's own policies for retries and dead letters come on
//!   top, and count an attempt for each of them.
//! * Acknowledgements to a subscription with exactly-once delivery are confirmed; one that is not is logged.
//! * How many messages wait cannot be asked for: see `num_undelivered_messages` in Cloud Monitoring.

mod config;
mod lookup;
mod pull;
mod session;
mod slices;
mod ticket;

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Delivery, SubscribeError, Subscription};
use tokio::sync::Mutex;

pub use config::PubSubSubscriptionConfig;

use self::session::Session;
use self::ticket::Leased;
use super::config::ConfigError;
use crate::queue::{Limits, Queue, Seat, after};

/// Consumes a subscription. Pulling begins with the first call of `next`; dropped without
/// [`close`](Subscription::close), it ends as by a crash.
pub struct PubSubSubscription {
    config: PubSubSubscriptionConfig,
    phase: Mutex<Phase>,
    seat: Seat<Leased>,
    queue: Queue<Leased>,
}

enum Phase {
    Idle,
    Open(Box<Session>),
    Closed,
}

impl PubSubSubscription {
    /// Checks the configuration. Whether the service can be reached and has the subscription shows in
    /// [`Subscription::ping`] and `next`.
    pub fn new(config: PubSubSubscriptionConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let queue = Queue::new(Limits {
            count_max: config.in_flight_max as usize,
            bytes_max: config.in_flight_bytes_max as usize,
            ordering: config.ordering,
        });
        Ok(Self {
            config,
            phase: Mutex::new(Phase::Idle),
            seat: queue.seat(),
            queue,
        })
    }

    /// Does something with the client, which is made first if need be.
    async fn with_session<R>(
        &self,
        act: impl FnOnce(&mut Session) -> R + Send,
    ) -> Result<R, SubscribeError> {
        let mut phase = self.phase.lock().await;
        if let Phase::Idle = *phase {
            *phase = Phase::Open(Box::new(Session::open(&self.config).await?));
        }
        match &mut *phase {
            Phase::Open(session) => Ok(act(session)),
            _ => Err(SubscribeError::Closed),
        }
    }
}

#[async_trait]
impl Subscription for PubSubSubscription {
    async fn next(&self, max: usize) -> Result<Vec<Delivery>, SubscribeError> {
        let pull = |session: &mut Session| session.begin_to_pull(&self.queue);
        self.with_session(pull).await?;
        self.seat.next(max).await
    }

    async fn ping(&self) -> Result<(), SubscribeError> {
        let asked = self.with_session(|session| session.ask()).await?;
        asked.await.map_err(SubscribeError::unavailable)??;
        Ok(())
    }

    async fn lag(&self) -> Option<u64> {
        None
    }

    async fn close(&self, deadline: Duration) {
        self.seat.close();
        let phase = std::mem::replace(&mut *self.phase.lock().await, Phase::Closed);
        let Phase::Open(session) = phase else {
            return;
        };
        let stopped = session.stop_pulling().await;
        if !self.seat.drained(after(deadline)).await {
            tracing::warn!("pubsub: closing with deliveries in hand: they are given back");
        }
        self.queue.revoke_all();
        stopped.end().await;
    }
}
