//! Idempotency in Redis, for handlers whose effects are not in a database of ours.
//!
//! A key holds `reserved:<owner>` for the length of a lease, then `done` for long. Whatever else a key holds counts as
//! done, so keys that another program has set do.

mod connection;
mod error;
mod script;
mod ttl;

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{EventId, IdempotencyStore, Owner, Reservation, StoreError};
use uuid::Uuid;

pub use ttl::{DEFAULT_TTL, TtlError, ttl_from_env};

use connection::Link;
use script::Step;

pub const DEFAULT_PREFIX: &str = "pf:evt:processed:";
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

const DONE: &str = "done";

/// Remembers events under `{prefix}{consumer}:{event_id}`. Cheap to clone.
///
/// Every call is one atomic step in Redis and ends within the timeout, in an error if need be. A step whose answer
/// came too late may have been taken: a reservation that nobody knows of runs out with its lease.
#[derive(Debug, Clone)]
pub struct RedisIdempotency {
    link: Link,
    prefix: String,
}

impl RedisIdempotency {
    /// Connects when it is first used, so a Redis that is down is no error yet; only a URL that cannot be read is.
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        Ok(Self {
            link: Link::new(url, DEFAULT_TIMEOUT)?,
            prefix: DEFAULT_PREFIX.to_owned(),
        })
    }

    #[must_use]
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            ..self
        }
    }

    /// How long a call may take, connecting included.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self {
            link: self.link.with_timeout(timeout),
            ..self
        }
    }

    /// Whether an event was processed before; if not, it is marked as processed from now on.
    ///
    /// Marking comes before the effect. A crash between the two, or an answer that is lost, leaves an event marked that
    /// nobody has processed, and it is not processed until `ttl` is over. [`IdempotencyStore`] has no such window.
    /// An event that is reserved through it is unavailable here until the reservation ends.
    pub async fn check_and_mark_processed(
        &self,
        consumer: &str,
        event_id: &EventId,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let took = self.take(consumer, event_id, DONE, ttl).await?;
        match took.as_str() {
            script::FIRST => Ok(false),
            script::BUSY => Err(StoreError::Unavailable {
                reason: format!("{event_id} is in another handler's hands"),
                source: None,
            }),
            _ => Ok(true),
        }
    }

    /// Forgets an event, whoever holds it: for a handler that failed after [`Self::check_and_mark_processed`].
    pub async fn delete(&self, consumer: &str, event_id: &EventId) -> Result<(), StoreError> {
        self.link.delete(&self.key(consumer, event_id)).await
    }

    /// What stands under a key decides; where nothing does, `value` is put there for `time`.
    async fn take(
        &self,
        consumer: &str,
        event_id: &EventId,
        value: &str,
        time: Duration,
    ) -> Result<String, StoreError> {
        let key = self.key(consumer, event_id);
        self.link.run(Step::take(&key, value, time)).await
    }

    fn key(&self, consumer: &str, event_id: &EventId) -> String {
        // A consumer's name ends at the first colon, so that no two pairs share a key.
        let consumer = consumer.replace('%', "%25").replace(':', "%3A");
        format!("{}{consumer}:{event_id}", self.prefix)
    }
}

#[async_trait]
impl IdempotencyStore for RedisIdempotency {
    async fn reserve(
        &self,
        consumer: &str,
        event_id: &EventId,
        lease: Duration,
    ) -> Result<Reservation, StoreError> {
        let owner = Owner(Uuid::now_v7().simple().to_string());
        let took = self
            .take(consumer, event_id, &reserved(&owner), lease)
            .await?;
        Ok(match took.as_str() {
            script::FIRST => Reservation::First(owner),
            script::BUSY => Reservation::Busy,
            _ => Reservation::Done,
        })
    }

    async fn renew(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let key = self.key(consumer, event_id);
        let renew = Step::renew(&key, &reserved(owner), lease);
        self.link.run(renew).await
    }

    async fn confirm(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let key = self.key(consumer, event_id);
        let confirm = Step::confirm(&key, &reserved(owner), DONE, ttl);
        self.link.run(confirm).await
    }

    async fn release(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
    ) -> Result<(), StoreError> {
        let key = self.key(consumer, event_id);
        self.link.run(Step::release(&key, &reserved(owner))).await
    }
}

fn reserved(owner: &Owner) -> String {
    format!("{}{}", script::RESERVED, owner.0)
}
