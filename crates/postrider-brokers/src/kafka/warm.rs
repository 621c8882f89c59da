//! Which keys' partitions know a producer. A broker lets a producer that it does not know begin with any
//! sequence number. So if the first request of a session to a partition is refused, the next one is taken
//! although it is out of order, and idempotence keeps nothing in order. Until a key's first message is
//! acknowledged, no second one of it may be on the way.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use postrider_core::Message;

/// Of so many keys we remember that they are warm; to forget one costs its next batch a round trip.
const KEYS_MAX: usize = 100_000;
/// Brokers forget a producer that was silent for a day (`producer.id.expiration.ms`).
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
pub(super) struct WarmKeys {
    hasher: RandomState,
    keys: HashSet<u64>,
    since: Instant,
}

impl Default for WarmKeys {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            keys: HashSet::new(),
            since: Instant::now(),
        }
    }
}

impl WarmKeys {
    pub(super) fn contains(&self, message: &Message) -> bool {
        self.since.elapsed() < FORGET_AFTER && self.keys.contains(&self.hash(message))
    }

    pub(super) fn insert(&mut self, message: &Message) {
        if self.keys.len() >= KEYS_MAX || self.since.elapsed() >= FORGET_AFTER {
            *self = Self::default();
        }
        self.keys.insert(self.hash(message));
    }

    fn hash(&self, message: &Message) -> u64 {
        self.hasher.hash_one((&message.topic, &message.key))
    }
}
