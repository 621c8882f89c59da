//! All outboxes at a glance: figures of the relays as they are now, counts of the tables as they were last made.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use postrider::Dependency;
use serde::Serialize;
use serde_json::{Value, json};

use super::Admin;
use super::outbox::Managed;

/// How long an answer waits for counts.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Overview<'a> {
    name: &'a str,
    layout: &'a str,
    table: String,
    broker: &'a str,
    claim: postrider::core::layout::ClaimMode,
    ordering: postrider::core::Ordering,
    pending: Option<u64>,
    oldest_age: Option<f64>,
    dead: Option<u64>,
    parked: Option<usize>,
    published_total: u64,
    failed_total: u64,
    dead_total: u64,
    released_total: u64,
    lanes_held: u64,
    breaker: &'static str,
    ready: bool,
    database: Value,
    broker_state: Value,
    publish_seconds: Value,
    counted_at: Option<String>,
}

impl Admin {
    pub(super) fn overview(&self) -> Value {
        let outboxes: Vec<Overview<'_>> = self
            .outboxes
            .iter()
            .map(|outbox| Overview::of(outbox))
            .collect();
        json!({
            "at": postrider::core::Timestamp::now().to_string(),
            "version": env!("CARGO_PKG_VERSION"),
            "started_at": self.started_at.to_string(),
            "outboxes": outboxes,
        })
    }

    /// The overview of this second as text. Made once, however many streams ask for it.
    pub(super) fn frame(&self) -> Arc<str> {
        let second = self.started.elapsed().as_secs();
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        if frame.0 != second {
            self.count();
            *frame = (second, self.overview().to_string().into());
        }
        frame.1.clone()
    }
}

impl<'a> Overview<'a> {
    fn of(outbox: &'a Managed) -> Self {
        let figures = outbox.monitor.figures();
        let counted = outbox.counts.latest();
        let backlog = counted.map(|counted| counted.backlog);
        let report = outbox.health.report();
        Self {
            name: outbox.name(),
            layout: &outbox.layout.name,
            table: outbox.layout.table.to_string(),
            broker: &outbox.broker,
            claim: outbox.layout.claim,
            ordering: outbox.layout.ordering,
            pending: backlog.map(|backlog| backlog.pending),
            oldest_age: backlog
                .and_then(|backlog| backlog.oldest_age)
                .map(|age| age.as_secs_f64()),
            dead: backlog.map(|backlog| backlog.dead),
            parked: counted.map(|counted| counted.parked),
            published_total: figures.published,
            failed_total: figures.failed,
            dead_total: figures.dead,
            released_total: figures.released,
            lanes_held: figures.lanes_held,
            breaker: outbox.monitor.breaker().as_str(),
            ready: report.is_ready(),
            database: dependency(&report.database),
            broker_state: dependency(&report.broker),
            publish_seconds: match figures.publish_seconds {
                Some(took) => json!({ "p50": took.p50, "p99": took.p99 }),
                None => Value::Null,
            },
            counted_at: counted.map(|counted| counted.at.to_string()),
        }
    }
}

pub(super) fn dependency(dependency: &Dependency) -> Value {
    match dependency {
        Dependency::Ready => json!({ "ready": true, "reason": null }),
        Dependency::NotReady { reason } => json!({ "ready": false, "reason": reason }),
    }
}
