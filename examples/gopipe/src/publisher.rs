//! Task 4: polls the outbox and publishes. A row is published once the broker has acknowledged it; until then it is
//! offered again, but never while it is in flight.

use std::sync::Arc;
use std::time::Duration;

use postrider::core::{Publisher, Router, Routes};
use postrider::relay::Config;
use postrider::stores::postgres::{Options, PgPool, PostgresStore};
use postrider::{Metrics, Relay};

use crate::OutboxConfig;

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
        let layout = outbox.layout();
        let config = Config {
            batch: self.batch_size,
            claims: 1,
            poll_min: self.poll_interval,
            poll_max: self.poll_interval,
            ordering: layout.ordering,
            ..Config::default()
        };
        let store = PostgresStore::new(pool, Options::new(layout.clone()));
        let router = Router::new(layout, Routes::new(), None);
        Relay::builder(Arc::new(store), broker, router)
            .config(config)
            .metrics(metrics)
            .build()
    }
}
