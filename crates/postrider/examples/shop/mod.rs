//! The shop that the examples are about: its events, its outbox's relay, and settings from the environment.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use postrider::Relay;
use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::pubsub::{PubSubConfig, PubSubPublisher};
use postrider::core::{EventPayload, Layout, Publisher, Router, Routes};
use postrider::relay::Config;
use postrider::stores::postgres::{Options, PgPool, PostgresStore};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A customer's orders have numbers that rise, and keep their order on the way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) customer: String,
    pub(crate) number: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderConfirmed {
    pub(crate) customer: String,
    pub(crate) number: i64,
}

impl EventPayload for OrderPlaced {
    const EVENT_TYPE: &'static str = "order.placed";
}

impl EventPayload for OrderConfirmed {
    const EVENT_TYPE: &'static str = "order.confirmed";
}

/// A setting that must be there.
pub(crate) fn setting(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| format!("please set {name}").into())
}

/// A setting with a default.
pub(crate) fn setting_or<T>(name: &str, default: T) -> Result<T, Failure>
where
    T: FromStr<Err: Display>,
{
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|error| format!("{name}={text}: {error}").into()),
        Err(_) => Ok(default),
    }
}

pub(crate) fn layout() -> Result<Layout, Failure> {
    Ok(Layout::preset("polyshop")?)
}

/// Which broker, by `BROKER`.
pub(crate) enum Broker {
    Kafka(KafkaConfig),
    PubSub(PubSubConfig),
}

impl Broker {
    pub(crate) fn from_settings() -> Result<Self, Failure> {
        match &*setting("BROKER")? {
            "kafka" => Ok(Self::Kafka(KafkaConfig::new(setting("KAFKA")?))),
            "pubsub" => Ok(Self::PubSub(PubSubConfig::new(setting("PROJECT")?))),
            other => Err(format!("BROKER is kafka or pubsub, not {other}").into()),
        }
    }

    fn publisher(&self) -> Result<Arc<dyn Publisher>, Failure> {
        Ok(match self {
            Self::Kafka(config) => Arc::new(KafkaPublisher::new(config.clone())?),
            Self::PubSub(config) => Arc::new(PubSubPublisher::new(config.clone())?),
        })
    }
}

/// Carries orders to `topic` and confirmations to `topic.followups`. `wake` tells it that there are new ones.
pub(crate) fn relay(pool: PgPool, broker: &Broker, wake: Arc<Notify>) -> Result<Relay, Failure> {
    let (layout, topic) = (layout()?, setting("TOPIC")?);
    let routes = Routes::new()
        .typed::<OrderPlaced>(&*topic)
        .typed::<OrderConfirmed>(format!("{topic}.followups"));
    let config = Config {
        batch: setting_or("RELAY_BATCH", 100)?,
        poll_min: Duration::from_millis(20),
        publish_timeout: Duration::from_secs(5),
        ordering: layout.ordering,
        ..Config::default()
    };
    let router = Router::new(&layout, routes, Some("shop".into()));
    let store = PostgresStore::new(pool, Options::new(layout));
    let relay = Relay::builder(Arc::new(store), broker.publisher()?, router);
    Ok(relay.config(config).wake(wake).build())
}

/// Cancelled by SIGTERM and SIGINT.
pub(crate) fn shutdown() -> Result<CancellationToken, Failure> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        told.cancel();
    });
    Ok(shutdown)
}

/// `RUST_LOG` says how much; by default what is wrong.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
