//! What bounds the memory broker.

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
