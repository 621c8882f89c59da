//! What can be seen of a relay from outside, without a question to the database.

use std::sync::Arc;

use postrider_core::RecordId;

use super::breaker::Breaker;
use super::journal::{FailedAttempt, Journal};
use crate::metrics::{Figures, OutboxMetrics};

/// A handle on one relay's figures. Cheap to clone; holds neither the store nor the publisher.
#[derive(Clone)]
pub struct Monitor {
    pub(super) metrics: OutboxMetrics,
    pub(super) breaker: Arc<Breaker>,
    pub(super) journal: Journal,
}

/// What the relay takes the broker to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Up.
    Closed,
    /// Down: nothing is claimed.
    Open,
    /// Down so far, and being tried.
    HalfOpen,
}

impl BreakerState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

impl Monitor {
    pub fn figures(&self) -> Figures {
        self.metrics.figures()
    }

    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// The failed attempts of a record, the earliest first, as far as they are among the last 10,000 of this outbox and of
    /// this process.
    pub fn failures(&self, record: &RecordId) -> Vec<FailedAttempt> {
        self.journal.failures(record)
    }
}
