//! Whether database and broker answer, as relays and consumers report it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::text::bounded;

const REASON_BYTES_MAX: usize = 500;

/// Parts of a broker that are named at a time.
const PARTS_MAX: usize = 20;
/// How long a part is named after its next try was due: a try takes time, and says nothing if it goes well.
const PART_GRACE: Duration = Duration::from_secs(15);

/// A handle on the health of a relay or a consumer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    report: HealthReport,
    /// Until when each of the report's parts is taken to be down.
    parts_until: Vec<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    pub database: Dependency,
    pub broker: Dependency,
    /// Parts of a broker that take no writes while the broker answers, and why; at most 20. Only what belongs to
    /// them waits, so the relay is ready.
    pub parts: Vec<String>,
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
        Self(Arc::new(Mutex::new(State {
            report: HealthReport {
                database: starting.clone(),
                broker: starting,
                parts: Vec::new(),
            },
            parts_until: Vec::new(),
        })))
    }

    /// For a consumer: nothing is known to be wrong with what its handlers need until they say so.
    pub(crate) fn of_consumer() -> Self {
        let health = Self::new();
        health.database_up();
        health
    }

    pub fn report(&self) -> HealthReport {
        let mut state = self.lock();
        state.forget_parts();
        state.report.clone()
    }

    /// A part takes no writes, and is tried again after this time.
    pub(crate) fn part_down(&self, reason: &str, retry_after: Duration) {
        let reason = bounded(reason, REASON_BYTES_MAX);
        let until = Instant::now() + retry_after + PART_GRACE;
        let mut state = self.lock();
        state.forget_parts();
        match state.report.parts.iter().position(|part| *part == reason) {
            Some(index) => state.parts_until[index] = until,
            None if state.report.parts.len() < PARTS_MAX => {
                state.report.parts.push(reason);
                state.parts_until.push(until);
            }
            None => {}
        }
    }

    pub(crate) fn database_up(&self) {
        self.lock().report.database = Dependency::Ready;
    }

    pub(crate) fn database_down(&self, reason: &str) {
        self.lock().report.database = Dependency::down(reason);
    }

    pub(crate) fn broker_up(&self) {
        self.lock().report.broker = Dependency::Ready;
    }

    pub(crate) fn broker_down(&self, reason: &str) {
        self.lock().report.broker = Dependency::down(reason);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_parts(&mut self) {
        let now = Instant::now();
        let mut until = self.parts_until.iter();
        self.report
            .parts
            .retain(|_| until.next().is_some_and(|until| *until > now));
        self.parts_until.retain(|until| *until > now);
    }
}

impl Dependency {
    fn down(reason: &str) -> Self {
        Self::NotReady {
            reason: bounded(reason, REASON_BYTES_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn a_closed_part_is_named_and_counted_until_it_was_not_heard_of_for_long() {
        let (health, metrics) = (Health::new(), Metrics::new());
        drop(metrics.of("orders"));
        metrics.watch("orders", &health);
        let exports = |count: u8| {
            let line = format!("postrider_broker_parts_closed{{outbox=\"orders\"}} {count}\n");
            metrics.encode().contains(&line)
        };
        assert!(exports(0));
        for part in [
            "topic a takes no writes: gone",
            "topic b takes no writes: gone",
        ] {
            health.part_down(part, Duration::ZERO);
            health.part_down(part, Duration::ZERO);
        }
        assert_eq!(health.report().parts[1], "topic b takes no writes: gone");
        assert!(exports(2));
        health.lock().parts_until[0] = Instant::now();
        assert_eq!(health.report().parts.len(), 1);
        assert!(exports(1));
    }
}
