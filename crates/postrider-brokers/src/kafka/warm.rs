//! Which keys' partitions know a producer. A broker lets a producer that it does not know begin with any
//! sequence number. So if the first request of a session to a partition is refused, the next one is taken
//! although it is out of order, and idempotence keeps nothing in order. Until a key's first message is
//! acknowledged, no second one of it may be on the way.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use postrider_core::Message;

/// Of so many keys we remember that they are warm; to forget one costs its next batch a round trip.
const KEYS_MAX: usize = 100_000;
/// Brokers forget a producer that was silent for a day (`producer.id.expiration.ms`).
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
pub(super) struct WarmKeys {
    keys: HashSet<Mark, RandomState>,
    since: Instant,
}

/// A message's topic and key, by a hash that is secret to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mark(u64);

/// Makes marks.
#[derive(Debug, Clone, Default)]
pub(super) struct Marker(RandomState);

impl Marker {
    pub(super) fn mark(&self, message: &Message) -> Mark {
        Mark(self.0.hash_one((&message.topic, &message.key)))
    }
}

impl Default for WarmKeys {
    fn default() -> Self {
        Self {
            keys: HashSet::default(),
            since: Instant::now(),
        }
    }
}

impl WarmKeys {
    /// One answer per mark.
    pub(super) fn contain(&self, marks: &[Mark]) -> Vec<bool> {
        let fresh = self.since.elapsed() < FORGET_AFTER;
        let warm = |mark| fresh && self.keys.contains(mark);
        marks.iter().map(warm).collect()
    }

    pub(super) fn extend(&mut self, marks: impl IntoIterator<Item = Mark>) {
        if self.since.elapsed() >= FORGET_AFTER {
            *self = Self::default();
        }
        for mark in marks {
            if self.keys.len() >= KEYS_MAX {
                *self = Self::default();
            }
            self.keys.insert(mark);
        }
    }
}
