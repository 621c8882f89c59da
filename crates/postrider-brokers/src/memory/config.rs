//! What bounds the memory broker.

use postrider_core::Ordering;
use serde::{Deserialize, Serialize};

/// Limits of a [`super::MemoryBroker`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// How many messages a topic keeps; the oldest go first. Default 100,000.
    pub messages_max: usize,
    /// Key, body and headers of one message together. Default 1,000,000.
    pub message_bytes_max: usize,
    /// Whether the first message for a topic creates it. Default true.
    pub create_topics: bool,
    /// How many topics may be created by messages. Default 1,000.
    pub topics_max: usize,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            messages_max: 100_000,
            message_bytes_max: 1_000_000,
            create_topics: true,
            topics_max: 1_000,
        }
    }
}

/// How a group reads from a [`super::MemoryBroker`]. The first subscription of a group decides for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySubscriptionConfig {
    /// How many messages may be fetched and not settled. Default 1,000.
    pub in_flight_max: usize,
    /// Their keys, bodies and headers together; one message is always let through. Default 32 MiB.
    pub in_flight_bytes_max: usize,
    /// Default by key.
    pub ordering: Ordering,
}

impl Default for MemorySubscriptionConfig {
    fn default() -> Self {
        Self {
            in_flight_max: crate::queue::COUNT_MAX,
            in_flight_bytes_max: crate::queue::BYTES_MAX,
            ordering: Ordering::Key,
        }
    }
}
