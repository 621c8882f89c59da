//! What the services have in common: their database, their cluster, the chain of a consumer, the relay.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::kafka::{
    Compression, KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::consumer::middleware::{Ack, DeadLetter, Inbox, Retry, Trace, Transaction};
use postrider::consumer::{Builder, Config};
use postrider::core::{Layout, Opening, Publisher, Router, Routes};
use postrider::stores::postgres::{
    self, InboxLayout, Options, Outbox, PgInbox, PgParkedKeys, PgPool, PgTransactions,
    PostgresStore, Tx,
};
use postrider::{Consumer, Relay, relay};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;

const CONNECTIONS_MAX: u32 = 16;

/// One service's connections. They are made when they are first used.
pub struct Service {
    pub name: &'static str,
    pub pool: PgPool,
    pub settings: Settings,
    cluster: KafkaConfig,
    layout: Layout,
}

impl Service {
    pub fn new(name: &'static str, settings: Settings) -> anyhow::Result<Self> {
        let mut cluster = KafkaConfig::new(&settings.kafka);
        cluster.client_id = name.into();
        // Clients in every language can read it; kafkajs, for one, knows no LZ4.
        cluster.compression = Compression::Gzip;
        let mut layout = Layout::preset("polyshop")?;
        layout.topic = settings
            .topic("{event_type}")
            .try_into()
            .map_err(anyhow::Error::msg)?;
        Ok(Self {
            name,
            pool: postgres::connect(&settings.database_url, CONNECTIONS_MAX)?,
            settings,
            cluster,
            layout,
        })
    }

    /// Writes events in the service's own transactions.
    pub fn outbox(&self) -> Outbox {
        Outbox::new(self.layout.clone())
    }

    /// Carries the outbox to the cluster; `wake` tells it that there is something new.
    pub fn relay(&self, wake: Arc<Notify>) -> anyhow::Result<Relay> {
        let router = Router::new(&self.layout, Routes::new(), Some(self.name.into()));
        let store = PostgresStore::new(self.pool.clone(), Options::new(self.layout.clone()));
        let config = relay::Config {
            batch: self.layout.defaults.batch.unwrap_or(100),
            poll_max: Duration::from_millis(500),
            ..relay::Config::default()
        };
        let relay = Relay::builder(Arc::new(store), self.publisher()?, router)
            .name(self.name)
            .broker("kafka");
        Ok(relay.config(config).wake(wake).build())
    }

    /// A consumer of these types of event, up to the handler: an event is entered in `processed_events` in the
    /// handler's transaction, temporary errors are tried again, permanent ones go to `{topic}.dlt`, and later events
    /// of the same key follow them there until the key is freed.
    pub fn consumer(&self, event_types: &[&str]) -> anyhow::Result<Builder<Tx>> {
        let group = format!("{}{}", self.settings.prefix, self.name);
        let topics = event_types.iter().map(|name| self.settings.topic(name));
        let subscription = KafkaSubscriptionConfig::at(&self.cluster, group, topics);
        let subscription = KafkaSubscription::new(subscription)?;
        let config = Config {
            opening: Opening::Polyshop,
            ..Config::default()
        };
        let parked = PgParkedKeys::new(self.pool.clone());
        let chain = Consumer::builder(self.name, Arc::new(subscription))
            .config(config)
            .with(Ack::default())
            .with(Trace)
            .with(Retry::default())
            .with(DeadLetter::new(self.publisher()?).park(parked))
            .with(Transaction::new(PgTransactions::new(self.pool.clone())))
            .with(Inbox::new(PgInbox::new(InboxLayout::polyshop())));
        Ok(chain)
    }

    fn publisher(&self) -> anyhow::Result<Arc<dyn Publisher>> {
        Ok(Arc::new(KafkaPublisher::new(self.cluster.clone())?))
    }
}

/// Runs two parts of a service. Both stop when the service is told to; if one ends, so does the other.
pub async fn run_both<A, B>(
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
