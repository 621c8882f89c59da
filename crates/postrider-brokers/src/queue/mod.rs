//! Deliveries that wait, are in hand or were put back: the one place that keeps order per key, counts what
//! is in flight and takes back what was nacked. Every subscription stands on it, whatever its broker.
//!
//! A subscription pushes what its broker sends and pushes no more while the queue is full; a [`Seat`] gives it
//! out. What the broker has to be told is told through the [`Ticket`] of each message.
#![cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "only partitions are revoked")
)]

mod seat;
mod state;
mod strays;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{Message, Ordering, SubscribeError, Timestamp};
use tokio::sync::Notify;

pub(crate) use seat::Seat;
use state::State;

/// How many messages may be in flight by default.
pub(crate) const COUNT_MAX: usize = 1_000;
/// How many bytes of them.
pub(crate) const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Longer than anybody means, and short enough to be added to any time.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The end of a wait that may be of any length.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(WAIT_MAX)
}

/// What the broker knows a message by. Its methods are called under the queue's lock: they note what is to
/// happen, and neither wait nor touch the queue.
pub(crate) trait Ticket: Send + 'static {
    /// The message is done with.
    fn acked(self);

    /// The queue has let go of a message that is not done with, so that the broker must deliver it again: the
    /// partition was revoked, the subscription ends, or [`Self::on_nack`] wanted it so.
    fn given_back(self);

    /// Where a nacked message waits for its next attempt.
    fn on_nack(&self, _after: Duration) -> OnNack {
        OnNack::PutBack
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnNack {
    /// In the queue, in its place at the front of its key, until the time is over.
    PutBack,
    /// Here too, but then it is given back to the broker, and all that wait behind it with it.
    #[cfg_attr(
        not(any(test, feature = "pubsub")),
        allow(dead_code, reason = "only Pub/Sub takes messages back one by one")
    )]
    GiveBack,
}

/// A part of the subscription that can be taken away as a whole: one assignment of a Kafka partition. A
/// number is never used again, so that what was settled late counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lot(pub(crate) u64);

/// A message from the broker.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) message: Message,
    pub(crate) published_at: Option<Timestamp>,
    pub(crate) attempt: u32,
    pub(crate) position: String,
    pub(crate) lot: Lot,
    pub(crate) ticket: T,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Waiting, put back and in hand together.
    pub(crate) count_max: usize,
    /// Of keys, bodies and headers of all of them.
    pub(crate) bytes_max: usize,
    /// With [`Ordering::Key`] a message with a key is ordered, else none is.
    pub(crate) ordering: Ordering,
}

/// Whether a lot should be fetched from. Each lot has an equal share of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Its share is used up, or the whole is.
    None,
    Some,
    /// At most half of its share is used.
    Plenty,
}

/// Why there is nothing, as long as that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Unavailable(String),
    Refused(String),
}

impl From<Trouble> for SubscribeError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unavailable(reason) => Self::Unavailable {
                reason,
                source: None,
            },
            Trouble::Refused(reason) => Self::Refused { reason },
        }
    }
}

/// A handle; clones share the queue.
pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something may be taken, or never will be.
    changed: Notify,
    /// Something was settled or let go of.
    freed: Notify,
    freed_blocking: Condvar,
    /// Something was taken out of a hand.
    lost: Notify,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Ticket> Queue<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(limits)),
                changed: Notify::new(),
                freed: Notify::new(),
                freed_blocking: Condvar::new(),
                lost: Notify::new(),
            }),
        }
    }

    /// Someone who takes from the queue.
    pub(crate) fn seat(&self) -> Seat<T> {
        let number = self.shared.state().sit_down();
        Seat::new(Arc::clone(&self.shared), number)
    }

    /// Adds a message behind all others. Whoever pushes looks first whether there is room: a push is never
    /// refused. The first message of a lot opens it.
    pub(crate) fn push(&self, entry: Entry<T>) {
        self.shared.state().push(entry);
        self.shared.changed.notify_waiters();
    }

    /// Lets a lot have its share before its first message.
    pub(crate) fn open(&self, lot: Lot) {
        self.shared.state().open(lot);
    }

    pub(crate) fn room(&self, lot: Lot) -> Room {
        self.shared.state().room(lot)
    }

    /// How many messages wait, are put back or are in hand.
    pub(crate) fn len(&self) -> usize {
        self.shared.state().len()
    }

    /// Returns once the queue is not full.
    #[cfg(feature = "pubsub")]
    pub(crate) async fn until_room(&self) {
        loop {
            let mut freed = std::pin::pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if !self.shared.state().is_full() {
                return;
            }
            freed.await;
        }
    }

    /// From now on gives out nothing of these lots: what waits is given back, what is nacked will be.
    pub(crate) fn withhold(&self, lots: &[Lot]) {
        self.shared.state().withhold(lots);
        self.shared.wake();
    }

    /// Waits until nothing of these lots is in hand, and says whether that is so. Blocks.
    pub(crate) fn wait_until_settled(&self, lots: &[Lot], deadline: Instant) -> bool {
        let mut state = self.shared.state();
        while state.has_in_hand(lots) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .shared
                .freed_blocking
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        true
    }

    /// Gives back everything of these lots. What is in hand is lost to its holder.
    pub(crate) fn revoke(&self, lots: &[Lot]) {
        self.shared.state().revoke(lots);
        self.shared.lost.notify_waiters();
        self.shared.wake();
    }

    /// Gives back everything of this lot and of those with a lower number, and what follows it in its order. What
    /// is in hand is lost to its holder.
    #[cfg(feature = "pubsub")]
    pub(crate) fn lapse(&self, last: Lot) {
        self.shared.state().lapse(last, Instant::now());
        self.shared.lost.notify_waiters();
        self.shared.wake();
    }

    /// Gives back what was nacked with [`OnNack::GiveBack`] when its time is over, also while nobody takes. Never
    /// returns.
    #[cfg(feature = "pubsub")]
    pub(crate) async fn give_back_due(&self) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let (gave_back, due) = {
                let mut state = self.shared.state();
                let before = state.len();
                state.wake_rested(Instant::now());
                (state.len() < before, state.next_due())
            };
            if gave_back {
                self.shared.wake();
            }
            match due {
                Some(due) => tokio::time::timeout_at(due.into(), changed)
                    .await
                    .unwrap_or(()),
                None => changed.await,
            }
        }
    }

    /// Gives back everything, of whatever lot.
    pub(crate) fn revoke_all(&self) {
        let lots = self.shared.state().lots();
        self.revoke(&lots);
    }

    /// Makes those who would wait fail instead, until [`Self::recover`].
    pub(crate) fn fail(&self, trouble: Trouble) {
        self.shared.state().trouble = Some(trouble);
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn recover(&self) {
        self.shared.state().trouble = None;
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed.notify_waiters();
        self.freed.notify_waiters();
        self.freed_blocking.notify_all();
    }
}
