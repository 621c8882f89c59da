//! Every metric's name and label, in one place. `docs/metrics.md` describes them for operators.

mod consumer;
mod figures;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Backlog, Emitted, Fate};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use consumer::ConsumerMetrics;
use figures::Recent;
pub use figures::{Figures, Quantiles};

use crate::Health;

/// From 1 ms to about 30 s.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outbox: String,
}

type Counters = Family<Label, Counter>;
type Histograms = Family<Label, Histogram, fn() -> Histogram>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// The metrics of one process. Cheap to clone; clones share the figures.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    published: Counters,
    failed: Counters,
    dead: Counters,
    released: Counters,
    lapsed: Counters,
    refused: Counters,
    duplicates: Counters,
    purged: Counters,
    batch_seconds: Histograms,
    publish_seconds: Histograms,
    backlog: Family<Label, Gauge>,
    oldest_age: Family<Label, FloatGauge>,
    dead_records: Family<Label, Gauge>,
    lanes: Family<Label, Gauge>,
    breaker: Family<Label, Gauge>,
    findings: Family<Label, Gauge>,
    parts_closed: Family<Label, Gauge>,
    /// Who knows how many parts are closed, by outbox. Asked when somebody wants the figures, since such
    /// knowledge expires by itself.
    healths: Arc<Mutex<BTreeMap<String, Health>>>,
    consumers: consumer::Consumers,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            registry: Arc::default(),
            published: Family::default(),
            failed: Family::default(),
            dead: Family::default(),
            released: Family::default(),
            lapsed: Family::default(),
            refused: Family::default(),
            duplicates: Family::default(),
            purged: Family::default(),
            batch_seconds: Family::new_with_constructor(histogram),
            publish_seconds: Family::new_with_constructor(histogram),
            backlog: Family::default(),
            oldest_age: Family::default(),
            dead_records: Family::default(),
            lanes: Family::default(),
            breaker: Family::default(),
            findings: Family::default(),
            parts_closed: Family::default(),
            healths: Arc::default(),
            consumers: consumer::Consumers::new(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.register_counters(&mut registry);
        self.register_histograms(&mut registry);
        self.register_gauges(&mut registry);
        self.consumers.register(&mut registry);
    }

    fn register_counters(&self, registry: &mut Registry) {
        let mut add = |name: &str, help: &str, counters: &Counters| {
            registry.register(format!("postrider_{name}"), help, counters.clone());
        };
        add(
            "published",
            "Records the broker acknowledged",
            &self.published,
        );
        add(
            "failed",
            "Failed attempts that will be repeated",
            &self.failed,
        );
        add("dead", "Records given up", &self.dead);
        add("released", "Records let go untouched", &self.released);
        let help = "Records whose claim had run out when their fate was known";
        add("lapsed", help, &self.lapsed);
        let help = "Records whose fate the database refused to store";
        add("refused", help, &self.refused);
        let help = "Emits that found their event already recorded";
        add("duplicates_suppressed", help, &self.duplicates);
        add(
            "purged",
            "Published records deleted by cleanup",
            &self.purged,
        );
    }

    fn register_histograms(&self, registry: &mut Registry) {
        let mut add = |name: &str, help: &str, histograms: &Histograms| {
            registry.register(
                format!("postrider_{name}_seconds"),
                help,
                histograms.clone(),
            );
        };
        add(
            "batch",
            "From claim to settled, per batch",
            &self.batch_seconds,
        );
        add(
            "publish",
            "The broker's part of a batch",
            &self.publish_seconds,
        );
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let help = "Age of the oldest record still to be published, from the table";
        registry.register(
            "postrider_oldest_age_seconds",
            help,
            self.oldest_age.clone(),
        );
        let mut add = |name: &str, help: &str, gauges: &Family<Label, Gauge>| {
            registry.register(format!("postrider_{name}"), help, gauges.clone());
        };
        let help = "Records still to be published, from the table";
        add("backlog", help, &self.backlog);
        add(
            "dead_records",
            "Dead records in the table",
            &self.dead_records,
        );
        add("lanes_held", "Lanes held at the moment", &self.lanes);
        add(
            "breaker_open",
            "1 while the broker is taken to be down",
            &self.breaker,
        );
        let help = "Things that the store knows to be wrong at the moment";
        add("findings", help, &self.findings);
        let help = "Topics and partitions that take no writes while the broker answers";
        add("broker_parts_closed", help, &self.parts_closed);
    }

    /// The figures in OpenMetrics text.
    pub fn encode(&self) -> String {
        self.count_parts();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            // Writing to a String does not fail; an encoder's own error would be a bug of ours.
            text.clear();
            if writeln!(text, "# metrics could not be encoded").is_err() {
                text.clear();
            }
        }
        text
    }

    /// Exports what a relay's health says about parts of its broker.
    pub(crate) fn watch(&self, outbox: &str, health: &Health) {
        self.healths().insert(outbox.into(), health.clone());
    }

    fn count_parts(&self) {
        for (outbox, health) in &*self.healths() {
            let label = Label {
                outbox: outbox.clone(),
            };
            let closed = health.report().parts.len();
            let gauge = self.parts_closed.get_or_create(&label);
            gauge.set(i64::try_from(closed).unwrap_or(i64::MAX));
        }
    }

    fn healths(&self) -> MutexGuard<'_, BTreeMap<String, Health>> {
        self.healths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what an emit found; for services that emit in this process.
    pub fn emitted(&self, outbox: &str, emitted: &Emitted) {
        if *emitted == Emitted::Duplicate {
            self.duplicates
                .get_or_create(&Label {
                    outbox: outbox.into(),
                })
                .inc();
        }
    }

    /// The figures of one consumer, likewise.
    pub(crate) fn of_consumer(&self, consumer: &str) -> ConsumerMetrics {
        self.consumers.of(consumer)
    }

    /// The figures of one outbox, looked up once and kept: the families lock on every look-up.
    pub(crate) fn of(&self, outbox: &str) -> OutboxMetrics {
        let label = Label {
            outbox: outbox.into(),
        };
        drop(self.duplicates.get_or_create(&label));
        drop(self.parts_closed.get_or_create(&label));
        OutboxMetrics {
            published: self.published.get_or_create_owned(&label),
            failed: self.failed.get_or_create_owned(&label),
            dead: self.dead.get_or_create_owned(&label),
            released: self.released.get_or_create_owned(&label),
            lapsed: self.lapsed.get_or_create_owned(&label),
            refused: self.refused.get_or_create_owned(&label),
            purged: self.purged.get_or_create_owned(&label),
            batch_seconds: self.batch_seconds.get_or_create_owned(&label),
            publish_seconds: self.publish_seconds.get_or_create_owned(&label),
            backlog: self.backlog.get_or_create_owned(&label),
            oldest_age: self.oldest_age.get_or_create_owned(&label),
            dead_records: self.dead_records.get_or_create_owned(&label),
            lanes: self.lanes.get_or_create_owned(&label),
            breaker: self.breaker.get_or_create_owned(&label),
            findings: self.findings.get_or_create_owned(&label),
            recent: Recent::default(),
        }
    }
}

/// The figures of one outbox.
#[derive(Clone)]
pub(crate) struct OutboxMetrics {
    published: Counter,
    failed: Counter,
    dead: Counter,
    released: Counter,
    lapsed: Counter,
    refused: Counter,
    purged: Counter,
    batch_seconds: Histogram,
    publish_seconds: Histogram,
    backlog: Gauge,
    oldest_age: FloatGauge,
    dead_records: Gauge,
    lanes: Gauge,
    breaker: Gauge,
    findings: Gauge,
    recent: Recent,
}

impl OutboxMetrics {
    pub(crate) fn settled(&self, fates: &[Fate], lapsed: u64, took: Duration) {
        let count =
            |wanted: fn(&Fate) -> bool| fates.iter().filter(|fate| wanted(fate)).count() as u64;
        self.published
            .inc_by(count(|fate| matches!(fate, Fate::Published)));
        self.failed
            .inc_by(count(|fate| matches!(fate, Fate::Retry { .. })));
        self.dead
            .inc_by(count(|fate| matches!(fate, Fate::Dead { .. })));
        self.released
            .inc_by(count(|fate| matches!(fate, Fate::Released)));
        self.lapsed.inc_by(lapsed);
        self.batch_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn publish_took(&self, took: Duration) {
        self.publish_seconds.observe(took.as_secs_f64());
        self.recent.took(took);
    }

    pub(crate) fn refused(&self, records: usize) {
        self.refused.inc_by(records as u64);
    }

    pub(crate) fn findings(&self, findings: usize) {
        self.findings
            .set(i64::try_from(findings).unwrap_or(i64::MAX));
    }

    pub(crate) fn purged(&self, records: u64) {
        self.purged.inc_by(records);
    }

    pub(crate) fn backlog(&self, backlog: &Backlog) {
        self.backlog
            .set(i64::try_from(backlog.pending).unwrap_or(i64::MAX));
        self.dead_records
            .set(i64::try_from(backlog.dead).unwrap_or(i64::MAX));
        self.oldest_age
            .set(backlog.oldest_age.unwrap_or_default().as_secs_f64());
    }

    /// Counts a claim's lanes as held until the guard is dropped, also when a stop drops the claim.
    pub(crate) fn hold_lanes(&self, lanes: u32) -> LanesHeld {
        self.lanes.inc_by(i64::from(lanes));
        LanesHeld {
            gauge: self.lanes.clone(),
            lanes,
        }
    }

    pub(crate) fn breaker(&self, open: bool) {
        self.breaker.set(i64::from(open));
    }
}

pub(crate) struct LanesHeld {
    gauge: Gauge,
    lanes: u32,
}

impl Drop for LanesHeld {
    fn drop(&mut self) {
        self.gauge.dec_by(i64::from(self.lanes));
    }
}
