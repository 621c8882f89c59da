//! Parked keys as an operator sees them, whatever the database.

use postrider_core::Timestamp;

/// A key that a dead letter holds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedKey {
    pub topic: String,
    pub key: Vec<u8>,
    pub reason: String,
    pub parked_at: Timestamp,
}
