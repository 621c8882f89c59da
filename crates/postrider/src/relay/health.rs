//! Whether database and broker answer. Cycles report what they meet; a probe asks when nothing moves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::text::{bounded, chain};
use tokio_util::sync::CancellationToken;

use super::Shared;

/// No probe waits longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const REASON_BYTES_MAX: usize = 500;

/// A handle on a relay's health. Cheap to clone.
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
    pub(super) fn new() -> Self {
        let starting = Dependency::NotReady {
            reason: "not asked yet".into(),
        };
        Self(Arc::new(Mutex::new(HealthReport {
            database: starting.clone(),
            broker: starting,
        })))
    }

    pub fn report(&self) -> HealthReport {
        self.lock().clone()
    }

    pub(super) fn database_up(&self) {
        self.lock().database = Dependency::Ready;
    }

    pub(super) fn database_down(&self, reason: &str) {
        self.lock().database = Dependency::down(reason);
    }

    pub(super) fn broker_up(&self) {
        self.lock().broker = Dependency::Ready;
    }

    pub(super) fn broker_down(&self, reason: &str) {
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

/// Pings both until the relay stops.
pub(super) async fn probe(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
        let both = async { tokio::join!(probe_database(&shared), probe_broker(&shared)) };
        tokio::select! {
            _ = both => {}
            () = shutdown.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(shared.config.probe_every) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn probe_database(shared: &Shared) {
    match tokio::time::timeout(PROBE_TIMEOUT, shared.store.ping()).await {
        Ok(Ok(())) => shared.health.database_up(),
        Ok(Err(error)) => shared.health.database_down(&chain(&error)),
        Err(_) => shared.health.database_down("no answer within 5 s"),
    }
}

/// An answered ping says nothing about publishing, so it does not close an open breaker: the next
/// try does.
async fn probe_broker(shared: &Shared) {
    match shared.ping_broker().await {
        Ok(()) if shared.breaker.is_open() => {}
        Ok(()) => shared.health.broker_up(),
        Err(reason) => shared.health.broker_down(&reason),
    }
}

impl Shared {
    /// Whether the broker answers, within bounds, or why not.
    pub(super) async fn ping_broker(&self) -> Result<(), String> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.publisher.ping()).await {
            Ok(answer) => answer.map_err(|error| chain(&error)),
            Err(_) => Err("no answer within 5 s".into()),
        }
    }
}
