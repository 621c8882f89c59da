//! Reading as a member of a consumer group. A thread polls and commits, the queue keeps order and bounds, and what is
//! committed never passes a record that is not done.

mod assignment;
mod config;
mod context;
mod poller;
mod progress;
mod record;
mod trouble;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Delivery, SubscribeError, Subscription};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

pub use config::{KafkaSubscriptionConfig, StartAt};
pub(super) use record::headers;

use super::config::ConfigError;
use crate::queue::{Seat, after};
use context::Shared;
use poller::{Ping, Poller};
use progress::OffsetTicket;

/// How many may wait for the thread.
const PINGS_MAX: usize = 16;
/// Time for the broker to answer, on top of what a rebalance may take.
const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// How long committing and leaving the group may take before nobody waits for it any more.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads topics of a Kafka cluster. The connection is made in the background and made anew after every trouble.
///
/// Dropped without [`Subscription::close`], it commits what is done and leaves the group, and nobody waits for it.
pub struct KafkaSubscription {
    shared: Arc<Shared>,
    seat: Seat<OffsetTicket>,
    pings: SyncSender<Ping>,
    ended: watch::Receiver<bool>,
}

impl KafkaSubscription {
    /// Checks the configuration and joins the group in the background. Whether the cluster can be reached shows in
    /// [`Subscription::ping`].
    pub fn new(config: KafkaSubscriptionConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let shared = Arc::new(Shared::new(config));
        let seat = shared.queue.seat();
        let consumer = poller::open(&shared)?;
        let (pings, receiver) = sync_channel(PINGS_MAX);
        let ended = Poller::spawn(Arc::clone(&shared), consumer, receiver).map_err(|error| {
            ConfigError::Client {
                reason: format!("no thread to poll on: {error}"),
            }
        })?;
        Ok(Self {
            shared,
            seat,
            pings,
            ended,
        })
    }
}

#[async_trait]
impl Subscription for KafkaSubscription {
    async fn next(&self, max: usize) -> Result<Vec<Delivery>, SubscribeError> {
        self.seat.next(max).await
    }

    async fn ping(&self) -> Result<(), SubscribeError> {
        let (sender, answer) = oneshot::channel();
        match self.pings.try_send(sender) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(unavailable("too many pings are waiting")),
            Err(TrySendError::Disconnected(_)) => return Err(SubscribeError::Closed),
        }
        let rebalance = Duration::from_millis(self.shared.config.revoke_timeout_ms.into());
        match timeout(PING_TIMEOUT + rebalance, answer).await {
            Ok(Ok(pinged)) => pinged.map_err(Into::into),
            Ok(Err(_)) => Err(SubscribeError::Closed),
            Err(_) => Err(unavailable("the client does not answer")),
        }
    }

    /// Of the partitions that are ours, up to what librdkafka's statistics knew a moment ago: messages that are
    /// not done, those in flight included.
    async fn lag(&self) -> Option<u64> {
        self.shared.assignment().lag()
    }

    async fn close(&self, deadline: Duration) {
        self.seat.close();
        self.seat.drained(after(deadline)).await;
        self.shared.leaving.store(true, Ordering::Release);
        let mut ended = self.ended.clone();
        if timeout(LEAVE_TIMEOUT, ended.wait_for(|ended| *ended))
            .await
            .is_err()
        {
            tracing::warn!("kafka: leaving the group takes longer than {LEAVE_TIMEOUT:?}");
        }
        self.seat.leave();
    }
}

fn unavailable(reason: &str) -> SubscribeError {
    SubscribeError::Unavailable {
        reason: reason.into(),
        source: None,
    }
}
