//! The figures of consumers.

use std::time::Duration;

use postrider_core::{Handled, HandlerError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::SECONDS;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    consumer: String,
}

type Counters = Family<Label, Counter>;

/// All consumers of a process, by name.
#[derive(Clone)]
pub(super) struct Consumers {
    handled: Counters,
    duplicates: Counters,
    dead_lettered: Counters,
    retried: Counters,
    given_back: Counters,
    batches_broken: Counters,
    seconds: Family<Label, Histogram, fn() -> Histogram>,
    in_flight: Family<Label, Gauge>,
    lag: Family<Label, Gauge>,
}

impl Consumers {
    pub(super) fn new() -> Self {
        Self {
            handled: Family::default(),
            duplicates: Family::default(),
            dead_lettered: Family::default(),
            retried: Family::default(),
            given_back: Family::default(),
            batches_broken: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            in_flight: Family::default(),
            lag: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let mut count = |name: &str, help: &str, counters: &Counters| {
            registry.register(format!("postrider_consumer_{name}"), help, counters.clone());
        };
        count(
            "handled",
            "Deliveries whose effects were applied",
            &self.handled,
        );
        count(
            "duplicates",
            "Deliveries whose effects were there already",
            &self.duplicates,
        );
        count(
            "dead_lettered",
            "Deliveries put into a dead-letter topic",
            &self.dead_lettered,
        );
        count("retried", "Tries repeated in the process", &self.retried);
        count(
            "given_back",
            "Deliveries given back to the broker",
            &self.given_back,
        );
        let help = "Deliveries that left a shared transaction to be handled alone";
        count("batch_fallbacks", help, &self.batches_broken);
        let help = "From taking a delivery to the end of its chain";
        registry.register(
            "postrider_consumer_handle_seconds",
            help,
            self.seconds.clone(),
        );
        let help = "Deliveries in hand";
        registry.register("postrider_consumer_in_flight", help, self.in_flight.clone());
        let help = "Messages that wait at the broker, where it can tell";
        registry.register("postrider_consumer_lag", help, self.lag.clone());
    }

    pub(super) fn of(&self, consumer: &str) -> ConsumerMetrics {
        let label = Label {
            consumer: consumer.into(),
        };
        ConsumerMetrics {
            handled: self.handled.get_or_create_owned(&label),
            duplicates: self.duplicates.get_or_create_owned(&label),
            dead_lettered: self.dead_lettered.get_or_create_owned(&label),
            retried: self.retried.get_or_create_owned(&label),
            given_back: self.given_back.get_or_create_owned(&label),
            batches_broken: self.batches_broken.get_or_create_owned(&label),
            seconds: self.seconds.get_or_create_owned(&label),
            in_flight: self.in_flight.get_or_create_owned(&label),
            lag: self.lag.get_or_create_owned(&label),
        }
    }
}

/// The figures of one consumer.
#[derive(Clone)]
pub(crate) struct ConsumerMetrics {
    handled: Counter,
    duplicates: Counter,
    dead_lettered: Counter,
    retried: Counter,
    given_back: Counter,
    batches_broken: Counter,
    seconds: Histogram,
    in_flight: Gauge,
    lag: Gauge,
}

impl ConsumerMetrics {
    pub(crate) fn handled(&self, result: &Result<Handled, HandlerError>, took: Duration) {
        let counter = match result {
            Ok(Handled::Applied) => &self.handled,
            Ok(Handled::Duplicate) => &self.duplicates,
            Ok(Handled::DeadLettered) => &self.dead_lettered,
            Err(_) => &self.given_back,
        };
        counter.inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn retried(&self) {
        self.retried.inc();
    }

    pub(crate) fn batch_broken(&self) {
        self.batches_broken.inc();
    }

    pub(crate) fn lag(&self, messages: u64) {
        self.lag.set(i64::try_from(messages).unwrap_or(i64::MAX));
    }

    /// Counts deliveries as in hand until the guard is dropped, also when a stop drops them.
    pub(crate) fn hold(&self, deliveries: usize) -> InHand {
        let count = i64::try_from(deliveries).unwrap_or(i64::MAX);
        self.in_flight.inc_by(count);
        InHand {
            gauge: self.in_flight.clone(),
            count,
        }
    }
}

pub(crate) struct InHand {
    gauge: Gauge,
    count: i64,
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.gauge.dec_by(self.count);
    }
}
