//! The infrastructure that delivers events. It knows nothing of chats: what it carries stands in the table `outbox`.

use std::sync::Arc;

use anyhow::Context as _;
use postrider::core::{Layout, LayoutError, OnDead, Publisher, RetryPolicy, Router, Routes};
use postrider::relay::{self, Dial, RelayError};
use postrider::stores::postgres::{InitOptions, Options, Outbox, PgPool, PostgresStore, init};
use postrider::{Health, Metrics, Relay};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::OutboxSettings;

/// What metrics and logs call the outbox.
pub(crate) const NAME: &str = "talkie";

/// Runs from `start` to `stop`, with the application or alone.
pub struct OutboxModule {
    dial: Dial,
    health: Health,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), RelayError>>,
}

impl OutboxModule {
    /// Creates the table and its indexes where they are missing. Never called by `start`: a schema is changed by those
    /// who say so.
    pub async fn init(pool: &PgPool) -> anyhow::Result<()> {
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        init(pool, &layout()?, &options).await?;
        Ok(())
    }

    /// What the application writes to, in its own transactions.
    pub fn outbox() -> Result<Outbox, LayoutError> {
        Ok(Outbox::new(layout()?))
    }

    /// The table as operators see it: dead records, the backlog.
    pub fn store(pool: PgPool, settings: &OutboxSettings) -> Result<PostgresStore, LayoutError> {
        let options = Options {
            max_attempts: settings.max_attempts(),
            lease: settings.lease(),
            ..Options::new(layout()?)
        };
        Ok(PostgresStore::new(pool, options))
    }

    /// Begins to publish. A database or broker that does not answer yet is waited for.
    pub fn start(
        pool: PgPool,
        publisher: Arc<dyn Publisher>,
        settings: &OutboxSettings,
        metrics: &Metrics,
    ) -> Result<Self, LayoutError> {
        let layout = layout()?;
        let tempo = settings.tempo();
        let config = relay::Config {
            batch: tempo.batch,
            claims: 1,
            poll_min: tempo.poll_min,
            poll_max: tempo.poll_max,
            publish_timeout: settings.lease() / 2,
            ordering: layout.ordering,
            retry: RetryPolicy {
                max_attempts: settings.max_attempts(),
                backoff: settings.backoff(),
                on_dead: OnDead::Park,
                count_outages: false,
            },
            ..relay::Config::default()
        };
        let router = Router::new(&layout, Routes::new(), None);
        let relay = Relay::builder(Arc::new(Self::store(pool, settings)?), publisher, router)
            .name(NAME)
            .broker("kafka")
            .config(config)
            .metrics(metrics)
            .build();
        let (dial, health) = (relay.dial(), relay.health());
        let shutdown = CancellationToken::new();
        Ok(Self {
            dial,
            health,
            running: tokio::spawn(relay.run(shutdown.clone())),
            shutdown,
        })
    }

    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Interval and batch size, from now on.
    pub fn adjust(&self, settings: &OutboxSettings) {
        let tempo = self.dial.set(settings.tempo());
        tracing::info!(batch = tempo.batch, interval = ?tempo.poll_max, "outbox adjusted");
    }

    /// Claims nothing more, lets what is in flight finish, and returns.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits for an end that nobody asked for, such as a table that is not there.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        let ended = (&mut self.running).await;
        ended
            .context("the outbox module panicked")?
            .context("the outbox module ended")
    }
}

fn layout() -> Result<Layout, LayoutError> {
    Layout::preset("talkie")
}
