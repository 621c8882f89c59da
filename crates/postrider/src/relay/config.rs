//! A relay's settings, with their defaults in one place.

use std::time::Duration;

use crate::cleanup::Cleanup;
use postrider_core::{Backoff, OnDead, Ordering, RetryPolicy};

#[derive(Debug, Clone)]
pub struct Config {
    /// Most records per claim.
    pub batch: u32,
    /// Most bytes of records that all claims hold together, as far as possible: a record that is larger is claimed alone.
    pub batch_bytes: usize,
    /// The largest message that the broker takes, where it is known. A record that is larger is dead before a message is
    /// made of it.
    pub message_bytes_max: Option<usize>,
    /// Claims that overlap, when there is more to do than one can. Each is a worker with a database connection of its own.
    pub claims: u32,
    /// The wait after an empty claim grows from `poll_min` to `poll_max` while nothing comes.
    pub poll_min: Duration,
    pub poll_max: Duration,
    /// How long the broker may take for a batch.
    pub publish_timeout: Duration,
    /// How long the database may take for a claim, or to settle one. Only a connection that was lost without a word takes longer.
    pub answer_timeout: Duration,
    /// How long a stop waits for what is in flight.
    pub stop_timeout: Duration,
    pub ordering: Ordering,
    pub retry: RetryPolicy,
    /// Between tries while the broker or the database is down.
    pub outage_backoff: Backoff,
    /// Deletes published records from time to time; `None` keeps them.
    pub cleanup: Option<Cleanup>,
    /// Between two counts of the backlog.
    pub backlog_every: Duration,
    /// Between two pings of database and broker.
    pub probe_every: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            batch: 1000,
            batch_bytes: 8 << 20,
            message_bytes_max: None,
            claims: 3,
            poll_min: Duration::from_millis(2),
            poll_max: Duration::from_millis(100),
            publish_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(300),
            stop_timeout: Duration::from_secs(20),
            ordering: Ordering::Key,
            retry: RetryPolicy {
                max_attempts: 25,
                backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(300)),
                on_dead: OnDead::Park,
                count_outages: false,
            },
            outage_backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
            cleanup: None,
            backlog_every: Duration::from_secs(10),
            probe_every: Duration::from_secs(2),
        }
    }
}
