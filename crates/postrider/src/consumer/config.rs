//! A consumer's settings, with their defaults in one place.

use std::time::Duration;

use postrider_core::{Backoff, Opening};

#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Deliveries, or batches of them, that are handled at the same time. One key is in one hand only.
    pub workers: usize,
    /// Which envelope the messages have.
    pub opening: Opening,
    /// How long a stop waits for what is in hand.
    pub stop_timeout: Duration,
    /// A worker's wait while the broker, or something that all events need, is down.
    pub outage_backoff: Backoff,
    /// Between two looks at the lag and the broker.
    pub lag_every: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 8,
            opening: Opening::Auto,
            stop_timeout: Duration::from_secs(20),
            outage_backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
            lag_every: Duration::from_secs(5),
        }
    }
}
