//! The seams of "applied once": the handler's transaction, what stands in it, and the reservation outside it.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Emitted, Event, EventId, HandlerError, StoreError};

/// Transactions that a handler's effects, its inbox entry and its captured events share.
#[async_trait]
pub trait Transactions: Send + Sync + 'static {
    /// Dropped without [`Self::commit`] it is rolled back, at once and whatever it was doing.
    type Tx: Send + 'static;

    async fn begin(&self) -> Result<Self::Tx, StoreError>;
    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError>;
    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError>;
}

/// Remembers in a transaction which events a consumer has applied.
#[async_trait]
pub trait InboxStore<Tx>: Send + Sync + 'static {
    /// Enters events, one admission each, in order. An event that is entered already, by this consumer and by
    /// whatever transaction, is a duplicate; if that transaction is still open, this waits for its end. An event
    /// that comes twice in one call is first once. Never spoils the transaction.
    async fn admit(
        &self,
        tx: &mut Tx,
        consumer: &str,
        arrivals: &[Arrival<'_>],
    ) -> Result<Vec<Admission>, StoreError>;
}

/// What an inbox is told about an event.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    pub event_id: &'a EventId,
    pub event_type: Option<&'a str>,
    pub source: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    First,
    Duplicate,
}

/// Writes captured events in a transaction.
#[async_trait]
pub trait OutboxWriter<Tx>: Send + Sync + 'static {
    /// Records events in order. What the outbox refuses is a permanent error.
    async fn enqueue(&self, tx: &mut Tx, events: &[Event]) -> Result<Vec<Emitted>, HandlerError>;

    /// What a record can hold beside the event itself.
    fn room(&self) -> Room {
        Room::default()
    }
}

/// What an outbox has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    pub headers: bool,
    pub metadata: bool,
}

/// Idempotency outside a transaction, in two states: reserved by one owner for a short lease, then done for long.
///
/// A crash leaves a reservation that runs out, so no effect is lost. An effect happens again only after a crash
/// between it and its confirmation, the loss of the store's data, or a handler that outlives its lease.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    /// Reserves an event for `lease`, in one atomic step.
    async fn reserve(
        &self,
        consumer: &str,
        event_id: &EventId,
        lease: Duration,
    ) -> Result<Reservation, StoreError>;

    /// Keeps a reservation for another `lease`; false when it is no longer this owner's.
    async fn renew(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
        lease: Duration,
    ) -> Result<bool, StoreError>;

    /// Turns the reservation into done, to be remembered for `ttl`; false when it is no longer this owner's and
    /// somebody else holds it or is done. A reservation that ran out and that nobody took is marked done.
    async fn confirm(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
        ttl: Duration,
    ) -> Result<bool, StoreError>;

    /// Gives a reservation up, if it is still this owner's.
    async fn release(
        &self,
        consumer: &str,
        event_id: &EventId,
        owner: &Owner,
    ) -> Result<(), StoreError>;
}

/// A random token: only who made a reservation may end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// Ours, until the lease ends.
    First(Owner),
    /// Applied before.
    Done,
    /// In somebody's hands at the moment; it may still fail.
    Busy,
}

/// Keys that a dead letter holds up: their later events follow it to the dead-letter topic, in order, until an
/// operator frees the key.
#[async_trait]
pub trait ParkedKeys: Send + Sync + 'static {
    async fn is_parked(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError>;

    /// Parks a key; parking it again changes nothing.
    async fn park(
        &self,
        consumer: &str,
        topic: &str,
        key: &[u8],
        reason: &str,
    ) -> Result<(), StoreError>;

    /// Frees a key; false when it was not parked.
    async fn free(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError>;
}
