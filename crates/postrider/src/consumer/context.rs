//! What a delivery carries through the chain. Outside a transaction it is a `Context`, inside one a
//! `Context<Tx>`: the same delivery, with the transaction in hand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use postrider_core::opening::open;
use postrider_core::{
    Delivery, Event, EventId, HandlerError, Message, OpenError, Opened, Opening, Timestamp,
};
use tokio_util::sync::CancellationToken;

use super::middleware::transaction::{Entry, Seat};
use crate::metrics::ConsumerMetrics;

/// What runs when a transaction has committed.
pub(super) type AfterCommit = Vec<Box<dyn FnOnce() + Send + Sync>>;

pub struct Context<T = ()> {
    arrival: Arc<Arrival>,
    tx: T,
    outputs: Vec<Event>,
    on_commit: AfterCommit,
}

/// What does not change with the scope.
pub(super) struct Arrival {
    consumer: Arc<str>,
    message: Message,
    position: String,
    attempt: u32,
    published_at: Option<Timestamp>,
    opening: Opening,
    opened: OnceLock<Result<Opened, OpenError>>,
    verdict: Mutex<Option<Verdict>>,
    last_try: AtomicBool,
    parked_its_key: AtomicBool,
    seat: Option<Seat>,
    pub(super) shutdown: CancellationToken,
    pub(super) metrics: ConsumerMetrics,
}

/// What the broker is told when the chain is through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Nack(Duration),
}

/// What all deliveries of one consumer have in common.
pub(super) struct Origin {
    pub(super) consumer: Arc<str>,
    pub(super) opening: Opening,
    pub(super) shutdown: CancellationToken,
    pub(super) metrics: ConsumerMetrics,
}

impl Context {
    pub(super) fn new(delivery: &Delivery, origin: &Origin, seat: Option<Seat>) -> Self {
        let arrival = Arrival {
            consumer: origin.consumer.clone(),
            message: delivery.message.clone(),
            position: delivery.position.clone(),
            attempt: delivery.attempt,
            published_at: delivery.published_at,
            opening: origin.opening,
            opened: OnceLock::new(),
            verdict: Mutex::new(None),
            last_try: true.into(),
            parked_its_key: false.into(),
            seat,
            shutdown: origin.shutdown.clone(),
            metrics: origin.metrics.clone(),
        };
        Self {
            arrival: Arc::new(arrival),
            tx: (),
            outputs: Vec::new(),
            on_commit: Vec::new(),
        }
    }

    /// The same delivery within a transaction.
    pub(super) fn inside<T>(&self, tx: T) -> Context<T> {
        Context {
            arrival: self.arrival.clone(),
            tx,
            outputs: Vec::new(),
            on_commit: Vec::new(),
        }
    }
}

impl<T> Context<T> {
    /// Its place in a batch that shares a transaction.
    pub(super) fn seat(&self) -> Option<&Seat> {
        self.arrival.seat.as_ref()
    }

    /// The event, as an inbox enters it.
    pub(super) fn entry(&self) -> Option<Entry> {
        let opened = self.try_opened().as_ref().ok()?;
        Some(Entry {
            event_id: opened.id.clone()?,
            event_type: opened.event_type.clone(),
            source: opened.source.clone(),
        })
    }

    /// The consumer's name, which is also the inbox's subscriber.
    pub fn consumer(&self) -> &str {
        &self.arrival.consumer
    }

    pub(super) fn consumer_name(&self) -> Arc<str> {
        self.arrival.consumer.clone()
    }

    /// The message as it came.
    pub fn message(&self) -> &Message {
        &self.arrival.message
    }

    /// Where the broker keeps the message, for logs.
    pub fn position(&self) -> &str {
        &self.arrival.position
    }

    /// How often the message was delivered, this time included.
    pub fn attempt(&self) -> u32 {
        self.arrival.attempt
    }

    pub fn published_at(&self) -> Option<Timestamp> {
        self.arrival.published_at
    }

    /// What the message says about its event. A message that is none is a permanent error.
    pub fn opened(&self) -> Result<&Opened, HandlerError> {
        self.try_opened()
            .as_ref()
            .map_err(|error| HandlerError::permanent(error.to_string()))
    }

    pub(super) fn try_opened(&self) -> &Result<Opened, OpenError> {
        let arrival = &self.arrival;
        arrival
            .opened
            .get_or_init(|| open(arrival.opening, &arrival.message))
    }

    /// The event's id, where the message has one that can be read.
    pub fn event_id(&self) -> Option<&EventId> {
        self.try_opened().as_ref().ok()?.id.as_ref()
    }

    /// The transaction that the handler's effects belong in.
    pub fn tx(&mut self) -> &mut T {
        &mut self.tx
    }

    /// Adds an event to those that `CaptureOutbox` records, as if the handler had returned it.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push(event);
    }

    /// Runs when the transaction has committed, and only then. A crash in between loses it: a hint, not a
    /// promise.
    pub fn on_commit(&mut self, run: impl FnOnce() + Send + Sync + 'static) {
        self.on_commit.push(Box::new(run));
    }

    /// Has the broker told, when the chain is through, that the message is done with.
    pub fn ack(&self) {
        self.decide(Verdict::Ack);
    }

    /// Has the broker told to deliver the message again after a while.
    pub fn nack(&self, after: Duration) {
        self.decide(Verdict::Nack(after));
    }

    /// Whether a temporary error now is the last one before the message is given up for this time.
    pub fn is_last_try(&self) -> bool {
        self.arrival.last_try.load(Ordering::Relaxed)
    }

    /// For whatever repeats the rest of the chain: whether another try follows a temporary error.
    pub fn set_last_try(&self, last: bool) {
        self.arrival.last_try.store(last, Ordering::Relaxed);
    }

    /// When the guard goes, also by being dropped half way, no other try follows.
    pub(super) fn tries_end_here(&self) -> TriesEnd {
        TriesEnd(self.arrival.clone())
    }

    /// Resolves when the consumer is told to stop. Whoever waits for long should wait for this too.
    pub async fn stopping(&self) {
        self.arrival.shutdown.cancelled().await;
    }

    /// The later events of the key that came in the same batch must not be handled.
    pub(super) fn note_parked_key(&self) {
        self.arrival.parked_its_key.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_parked_its_key(&self) -> bool {
        self.arrival.parked_its_key.load(Ordering::Relaxed)
    }

    pub(super) fn metrics(&self) -> &ConsumerMetrics {
        &self.arrival.metrics
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        *self
            .arrival
            .verdict
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, verdict: Verdict) {
        *self
            .arrival
            .verdict
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(verdict);
    }

    pub(super) fn take_outputs(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.outputs)
    }

    /// What a transaction's end needs: itself, what runs after a commit, and what nobody captured.
    pub(super) fn into_parts(self) -> (T, AfterCommit, Vec<Event>) {
        (self.tx, self.on_commit, self.outputs)
    }
}

pub(super) struct TriesEnd(Arc<Arrival>);

impl Drop for TriesEnd {
    fn drop(&mut self) {
        self.0
            .last_try
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
