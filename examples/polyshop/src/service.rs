//! What the services have in common: their database, their cluster, the chain of a consumer, how they run and stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use postrider::brokers::kafka::{
    Compression, KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::consumer::middleware::{Ack, DeadLetter, Inbox, Retry, Trace, Transaction};
use postrider::consumer::{Builder, Config};
use postrider::core::{HandlerError, Layout, Opening, Publisher};
use postrider::stores::postgres::{
    self, InboxLayout, Outbox, PgInbox, PgParkedKeys, PgPool, PgTransactions, Tx,
};
use postrider::{Cleanup, Consumer, Metrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::http;
use crate::settings::Settings;

const CONNECTIONS_MAX: u32 = 16;
/// How long a duplicate is recognised: as long as a dead letter is kept, which may be sent again.
const PROCESSED_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// One service's connections. They are made when they are first used.
pub struct Service {
    pub name: &'static str,
    pub pool: PgPool,
    pub settings: Settings,
    cluster: KafkaConfig,
    inbox: PgInbox,
    metrics: Metrics,
}

impl Service {
    pub fn new(name: &'static str, settings: Settings) -> anyhow::Result<Self> {
        let mut cluster = KafkaConfig::new(&settings.kafka);
        cluster.client_id = name.into();
        // Clients in every language can read it; kafkajs, for one, knows no LZ4.
        cluster.compression = Compression::Gzip;
        Ok(Self {
            name,
            pool: postgres::connect(&settings.database_url, CONNECTIONS_MAX)?,
            settings,
            cluster,
            inbox: PgInbox::new(InboxLayout::polyshop()),
            metrics: Metrics::new(),
        })
    }

    /// Writes events in the service's own transactions. `postrider relay` publishes them.
    pub fn outbox(&self) -> anyhow::Result<Outbox> {
        Ok(Outbox::new(Layout::preset("polyshop")?))
    }

    /// A consumer of these types of event, up to the handler: an event is entered in `processed_events` in the
    /// handler's transaction, temporary errors are tried again, permanent ones go to `{topic}.dlt`, and later events
    /// of the same key follow them there until the key is freed.
    pub fn consumer(&self, event_types: &[&str]) -> anyhow::Result<Builder<Tx>> {
        let group = format!("{}{}", self.settings.prefix, self.name);
        let topics = event_types.iter().map(|name| self.settings.topic(name));
        let subscription = KafkaSubscriptionConfig::at(&self.cluster, group, topics);
        let subscription = KafkaSubscription::new(subscription)?;
        let publisher: Arc<dyn Publisher> = Arc::new(KafkaPublisher::new(self.cluster.clone())?);
        let config = Config {
            opening: Opening::Polyshop,
            ..Config::default()
        };
        let parked = PgParkedKeys::new(self.pool.clone());
        let chain = Consumer::builder(self.name, Arc::new(subscription))
            .config(config)
            .metrics(&self.metrics)
            .with(Ack::default())
            .with(Trace)
            .with(Retry::default())
            .with(DeadLetter::new(publisher).park(parked))
            .with(Transaction::new(PgTransactions::new(self.pool.clone())))
            .with(Inbox::new(self.inbox.clone()));
        Ok(chain)
    }

    /// Consumes, answers requests and deletes old entries of `processed_events`, until it is told to stop.
    pub async fn run(
        self,
        consumer: Consumer,
        routes: Router,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let watching = http::watching(self.pool.clone(), consumer.health(), self.metrics);
        let serve = http::serve(
            self.settings.listen,
            routes.merge(watching),
            shutdown.clone(),
        );
        let cleanup = Cleanup {
            keep: PROCESSED_KEPT,
            ..Cleanup::default()
        };
        let upkeep = self.inbox.upkeep(self.pool);
        let (ended, ()) = tokio::join!(
            run_both(&shutdown, serve, consumer.run(shutdown.clone())),
            cleanup.run("processed_events", &upkeep, shutdown.clone()),
        );
        ended
    }
}

/// Runs two parts of a service. Both stop when the service is told to; if one ends, so does the other.
async fn run_both<A, B>(
    shutdown: &CancellationToken,
    one: impl Future<Output = Result<(), A>>,
    other: impl Future<Output = Result<(), B>>,
) -> anyhow::Result<()>
where
    anyhow::Error: From<A> + From<B>,
{
    let one = async {
        let ended = one.await;
        shutdown.cancel();
        ended
    };
    let other = async {
        let ended = other.await;
        shutdown.cancel();
        ended
    };
    let (one, other) = tokio::join!(one, other);
    one?;
    other?;
    Ok(())
}

/// An id from an event. One that is no UUID, as all languages write them, will never be.
pub(crate) fn uuid(text: &str) -> Result<Uuid, HandlerError> {
    let parsed = Uuid::parse_str(text).ok();
    let hyphenated = parsed.filter(|_| text.len() == Hyphenated::LENGTH);
    hyphenated.ok_or_else(|| HandlerError::permanent("Validation failed: an id is no UUID"))
}

/// What the database says about a value (SQLSTATE classes 22 and 23) it will always say; anything else may pass.
pub(crate) fn database_error(error: sqlx::Error) -> HandlerError {
    let code = error.as_database_error().and_then(|error| error.code());
    match code.as_deref() {
        Some(code) if code.starts_with("22") || code.starts_with("23") => {
            HandlerError::permanent(error)
        }
        _ => error.into(),
    }
}

/// Cancelled by SIGTERM and SIGINT.
pub fn shutdown() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(shutdown)
}
