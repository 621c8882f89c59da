//! Whether database and broker answer, as relays and consumers report it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::text::bounded;

const REASON_BYTES_MAX: usize = 500;

/// A handle on the health of a relay or a consumer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<HealthReport>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    pub database: Dependency,
    pub broker: Dependency,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dependency {
    Ready,
    NotReady { reason: String },
}

impl HealthReport {
    pub fn is_ready(&self) -> bool {
        self.database == Dependency::Ready && self.broker == Dependency::Ready
    }
}

impl Health {
    /// Not ready until something has answered.
    pub(crate) fn new() -> Self {
        let starting = Dependency::NotReady {
            reason: "not asked yet".into(),
        };
        Self(Arc::new(Mutex::new(HealthReport {
            database: starting.clone(),
            broker: starting,
        })))
    }

    /// For a consumer: nothing is known to be wrong with what its handlers need until they say so.
    pub(crate) fn of_consumer() -> Self {
        let health = Self::new();
        health.database_up();
        health
    }

    pub fn report(&self) -> HealthReport {
        self.lock().clone()
    }

    pub(crate) fn database_up(&self) {
        self.lock().database = Dependency::Ready;
    }

    pub(crate) fn database_down(&self, reason: &str) {
        self.lock().database = Dependency::down(reason);
    }

    pub(crate) fn broker_up(&self) {
        self.lock().broker = Dependency::Ready;
    }

    pub(crate) fn broker_down(&self, reason: &str) {
        self.lock().broker = Dependency::down(reason);
    }

    fn lock(&self) -> MutexGuard<'_, HealthReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dependency {
    fn down(reason: &str) -> Self {
        Self::NotReady {
            reason: bounded(reason, REASON_BYTES_MAX),
        }
    }
}
