//! Task 4: polls the outbox and publishes. A row is published once the broker has acknowledged it; until then it is
//! offered again, but never while it is in flight. Either the publisher takes the rows to a broker, or `source` gives them
//! out as messages, and whoever takes them says what became of each.

use std::sync::Arc;
use std::time::Duration;

use postrider::core::text::chain;
use postrider::core::{Failure, Publisher, Router, Routes, StoreError};
use postrider::relay::Config;
use postrider::source::Messages;
use postrider::stores::postgres::{self, InitOptions, Options, PgPool, PostgresStore};
use postrider::{Metrics, Relay, Source};

use crate::OutboxConfig;

/// Of one message that is piped to a broker. Shorter than the time a claim has for all of its answers.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

const INIT: InitOptions = InitOptions {
    claim_index: true,
    notify: false,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxPublisherConfig {
    pub poll_interval: Duration,
    pub batch_size: u32,
}

impl Default for OutboxPublisherConfig {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_millis(500),
            batch_size: 100,
        }
    }
}

impl OutboxPublisherConfig {
    /// The publisher, ready to run. Building it does no I/O.
    pub fn publisher(
        self,
        pool: PgPool,
        outbox: &OutboxConfig,
        broker: Arc<dyn Publisher>,
        metrics: &Metrics,
    ) -> Relay {
        Relay::builder(store(pool, outbox), broker, router(outbox))
            .config(self.relay_config(outbox))
            .metrics(metrics)
            .build()
    }

    /// The plan's `Source()`: a stream of messages, of which an ack marks the row published and a nack leaves it for a later
    /// poll. Nothing is read before `run`.
    pub fn source(
        self,
        pool: PgPool,
        outbox: &OutboxConfig,
        metrics: &Metrics,
    ) -> (Source, Messages) {
        let config = self.relay_config(outbox);
        let (source, messages) = Source::new(store(pool, outbox), router(outbox), config);
        (source.named("outbox", metrics), messages)
    }

    fn relay_config(self, outbox: &OutboxConfig) -> Config {
        Config {
            batch: self.batch_size,
            claims: 1,
            poll_min: self.poll_interval,
            poll_max: self.poll_interval,
            ordering: outbox.layout().ordering,
            ..Config::default()
        }
    }
}

fn store(pool: PgPool, outbox: &OutboxConfig) -> Arc<PostgresStore> {
    let options = Options::new(outbox.layout().clone());
    Arc::new(PostgresStore::new(pool, options))
}

fn router(outbox: &OutboxConfig) -> Router {
    Router::new(outbox.layout(), Routes::new(), None)
}

/// Takes the messages of a source to a broker, one after the other, until the source ends.
pub async fn pipe(messages: Messages, broker: Arc<dyn Publisher>) {
    while let Some(outgoing) = messages.next().await {
        let message = std::slice::from_ref(outgoing.message());
        let outcome = broker.publish(message, PUBLISH_TIMEOUT).await.pop();
        let answered = match outcome {
            Some(Ok(())) => outgoing.ack(),
            // A broker that is down is no fault of the message: it costs no attempt.
            Some(Err(error)) if error.failure() == Failure::Outage => outgoing.release(),
            Some(Err(error)) => outgoing.nack(chain(&error)),
            None => outgoing.nack("the broker gave no outcome"),
        };
        if let Err(ended) = answered {
            tracing::warn!("{ended}");
        }
    }
}

/// What [`init_publisher`] runs, for those who manage schemas with a tool of their own.
pub fn publisher_schema(outbox: &OutboxConfig) -> Vec<String> {
    postgres::ddl(outbox.layout(), &INIT)
}

/// Creates what the publisher keeps beside the outbox, where it is missing: `postrider_troubles`, rows that failed with
/// their attempts, for which the plan's table has no column; and `postrider_audit`, what operators did. Adds the index of
/// unpublished rows to an outbox that has none.
pub async fn init_publisher(pool: &PgPool, outbox: &OutboxConfig) -> Result<(), StoreError> {
    postgres::init(pool, outbox.layout(), &INIT).await
}
