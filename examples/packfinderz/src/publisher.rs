//! `outbox-publisher`: moves rows of `outbox_events` to Pub/Sub, and nothing else. It knows no domain, only the
//! registry.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use postrider::brokers::pubsub::{PubSubConfig, PubSubPublisher};
use postrider::core::{Backoff, Layout, OnDead, RetryPolicy, Router};
use postrider::relay::Config;
use postrider::stores::postgres::{self, Options, PostgresStore};
use postrider::{Metrics, Relay};
use tokio_util::sync::CancellationToken;

use crate::endpoints;
use crate::registry::Registry;
use crate::settings::Publisher;

/// One claim at a time, as PackFinderz describes it; run more publishers for more.
const CLAIMS: u32 = 1;
/// The claim's, and one each for backlog and readiness.
const CONNECTIONS: u32 = CLAIMS + 2;
/// No wait after an error is longer.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Runs until told to stop.
pub async fn run(settings: Publisher, shutdown: CancellationToken) -> anyhow::Result<()> {
    let metrics = Metrics::new();
    let relay = relay(&settings, &metrics)?;
    tracing::info!(
        batch_size = settings.batch_size,
        poll_ms = settings.poll.as_millis() as u64,
        max_attempts = settings.max_attempts,
        domain_topic = settings.domain_topic,
        project = settings.project,
        "outbox-publisher starts"
    );
    let watching = endpoints::watching(relay.health(), metrics, shutdown.clone());
    let serving = endpoints::serve(settings.health_listen, watching, shutdown.clone());
    endpoints::beside(relay.run(shutdown.clone()), serving, &shutdown).await
}

fn relay(settings: &Publisher, metrics: &Metrics) -> anyhow::Result<Relay> {
    let layout = Layout::preset("packfinderz")?;
    let routes = Registry::load()?.routes(&settings.domain_topic)?;
    let router = Router::new(&layout, routes, None);
    let config = config(settings, &layout);
    let pool = postgres::connect(&settings.database_url, CONNECTIONS)?;
    let options = Options {
        max_attempts: settings.max_attempts,
        ..Options::new(layout)
    };
    let publisher = PubSubPublisher::new(PubSubConfig::new(&settings.project));
    let publisher = publisher.context(crate::settings::PROJECT)?;
    Ok(Relay::builder(
        Arc::new(PostgresStore::new(pool, options)),
        Arc::new(publisher),
        router,
    )
    .name("outbox_events")
    .broker("gcp_pubsub")
    .config(config)
    .metrics(metrics)
    .build())
}

fn config(settings: &Publisher, layout: &Layout) -> Config {
    Config {
        batch: settings.batch_size,
        claims: CLAIMS,
        // With jitter below the base, so that publishers do not poll in step.
        poll_min: settings.poll / 2,
        poll_max: settings.poll,
        ordering: layout.ordering,
        retry: RetryPolicy {
            max_attempts: settings.max_attempts,
            backoff: Backoff::new(settings.poll.min(BACKOFF_MAX), BACKOFF_MAX),
            on_dead: OnDead::Park,
            // An outage of Pub/Sub is no fault of the rows.
            count_outages: false,
        },
        // Another program's: this one has no right to delete.
        cleanup: None,
        ..Config::default()
    }
}
