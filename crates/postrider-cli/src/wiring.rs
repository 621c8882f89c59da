//! The one place where a name in the config becomes a store or a broker.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use postrider::brokers::kafka::{KafkaPublisher, KafkaReadback};
use postrider::brokers::memory::MemoryBroker;
use postrider::brokers::pubsub::PubSubPublisher;
use postrider::core::operate::OVERDUE;
use postrider::core::{
    Backoff, Layout, ManagedStore, Publisher, Readback, RetryPolicy, Router, StoreError,
};
use postrider::relay;
pub(crate) use postrider::stores::postgres::InitOptions;
use postrider::stores::postgres::{self, Options, PostgresStore};
use postrider::{Metrics, Relay};
use tokio::sync::Notify;

use crate::config::{Broker, BrokerOptions, Cleanup, Config, ConfigError, DatabaseUrl, Outbox};

pub(crate) type Store = Arc<dyn ManagedStore>;
pub(crate) type Publishers = BTreeMap<String, Arc<dyn Publisher>>;

/// The table of an outbox. Connects when it is first used.
pub(crate) fn store(outbox: &Outbox) -> Result<Store, ConfigError> {
    Ok(Arc::new(postgres_store(outbox)?))
}

fn postgres_store(outbox: &Outbox) -> Result<PostgresStore, ConfigError> {
    let pool = postgres::connect(outbox.database.expose(), outbox.connections)
        .map_err(|error| ConfigError::in_database(&outbox.name, error.to_string()))?;
    let options = Options {
        name: outbox.name.clone(),
        layout: outbox.layout.clone(),
        overdue: OVERDUE,
        max_attempts: outbox.max_attempts,
        on_dead: outbox.on_dead,
        lease: outbox.lease,
        hold_max: outbox.lease,
    };
    Ok(PostgresStore::new(pool, options))
}

/// The statements that create what a layout needs.
pub(crate) fn ddl(layout: &Layout, options: &InitOptions) -> Vec<String> {
    postgres::ddl(layout, options)
}

/// Creates what a layout needs and the database lacks.
pub(crate) async fn init(
    database: &DatabaseUrl,
    layout: &Layout,
    options: &InitOptions,
) -> Result<(), StoreError> {
    let pool = postgres::connect(database.expose(), 1)?;
    postgres::init(&pool, layout, options).await
}

/// Every broker that an outbox names, once. Connects when it is first used.
pub(crate) fn publishers(config: &Config) -> Result<Publishers, ConfigError> {
    let used = |name: &str| config.outboxes.iter().any(|outbox| outbox.broker == name);
    config
        .brokers
        .iter()
        .filter(|(name, _)| used(name))
        .map(|(name, broker)| {
            let made = publisher(broker).map_err(|reason| ConfigError::in_broker(name, reason))?;
            Ok((name.clone(), made))
        })
        .collect()
}

fn publisher(broker: &Broker) -> Result<Arc<dyn Publisher>, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    Ok(match &broker.options {
        BrokerOptions::Kafka(config) => {
            Arc::new(KafkaPublisher::new(config.clone()).map_err(|error| text(&error))?)
        }
        BrokerOptions::PubSub(config) => {
            Arc::new(PubSubPublisher::new(config.clone()).map_err(|error| text(&error))?)
        }
        BrokerOptions::Memory(config) => Arc::new(MemoryBroker::new(config.clone())),
    })
}

/// A publisher for one outbox's messages, beside its relay.
pub(crate) fn publisher_of(
    config: &Config,
    outbox: &Outbox,
) -> Result<Arc<dyn Publisher>, ConfigError> {
    let broker = broker_of(config, outbox)?;
    if let BrokerOptions::Memory(_) = broker.options {
        return Err(ConfigError::in_broker(&outbox.broker, IN_MEMORY.into()));
    }
    publisher(broker).map_err(|reason| ConfigError::in_broker(&outbox.broker, reason))
}

/// What reads back the broker of an outbox, where it can be read back.
pub(crate) fn readback_of(
    config: &Config,
    outbox: &Outbox,
) -> Result<Arc<dyn Readback>, ConfigError> {
    let refused = |reason: String| ConfigError::in_broker(&outbox.broker, reason);
    match &broker_of(config, outbox)?.options {
        BrokerOptions::Kafka(kafka) => match KafkaReadback::new(kafka.clone()) {
            Ok(readback) => Ok(Arc::new(readback)),
            Err(error) => Err(refused(error.to_string())),
        },
        BrokerOptions::PubSub(_) => Err(refused(NOT_READABLE.into())),
        BrokerOptions::Memory(_) => Err(refused(IN_MEMORY.into())),
    }
}

const IN_MEMORY: &str =
    "it is in the memory of the relay's process and cannot be reached from here";
const NOT_READABLE: &str = "Pub/Sub cannot be read back: a topic keeps nothing by itself, and a subscription gives each \
     message to one reader; compare what a consumer's inbox has instead";

fn broker_of<'a>(config: &'a Config, outbox: &Outbox) -> Result<&'a Broker, ConfigError> {
    let missing = || ConfigError::in_broker(&outbox.broker, "it is not in the config".into());
    config.brokers.get(&outbox.broker).ok_or_else(missing)
}

/// Makes an outbox's messages.
pub(crate) fn router(outbox: &Outbox) -> Router {
    Router::new(&outbox.layout, outbox.routes.clone(), outbox.source.clone())
}

/// The relay of one outbox, ready to run.
pub(crate) fn relay(
    config: &Config,
    outbox: &Outbox,
    store: Store,
    publishers: &Publishers,
    metrics: &Metrics,
) -> anyhow::Result<Relay> {
    let publisher = publishers.get(&outbox.broker).cloned();
    let publisher = publisher.with_context(|| format!("broker {} was not made", outbox.broker))?;
    let mut relay = Relay::builder(store, publisher, router(outbox))
        .name(&outbox.name)
        .config(relay_config(outbox))
        .metrics(metrics);
    if let Some(broker) = config.brokers.get(&outbox.broker) {
        relay = relay.broker(messaging_system(broker));
    }
    if outbox.notify {
        relay = relay.wake(hints(outbox)?);
    }
    Ok(relay.build())
}

/// As OpenTelemetry names them, for spans.
fn messaging_system(broker: &Broker) -> &'static str {
    match broker.options {
        BrokerOptions::Kafka(_) => "kafka",
        BrokerOptions::PubSub(_) => "gcp_pubsub",
        BrokerOptions::Memory(_) => "memory",
    }
}

/// Passes the database's hints on to all workers, since only one of them looks at the lane of a new record.
fn hints(outbox: &Outbox) -> Result<Arc<Notify>, ConfigError> {
    let (wake, notify) = (postgres_store(outbox)?.listen(), Arc::new(Notify::new()));
    let workers = notify.clone();
    // Ends with the process, as the relay does.
    tokio::spawn(async move {
        loop {
            wake.woken().await;
            workers.notify_waiters();
        }
    });
    Ok(notify)
}

fn relay_config(outbox: &Outbox) -> relay::Config {
    relay::Config {
        batch: outbox.batch,
        claims: outbox.claims,
        poll_min: outbox.poll_min,
        poll_max: outbox.poll_max,
        publish_timeout: outbox.publish_timeout,
        stop_timeout: outbox.stop_timeout,
        ordering: outbox.layout.ordering,
        retry: RetryPolicy {
            max_attempts: outbox.max_attempts,
            backoff: Backoff::new(outbox.retry.base, outbox.retry.cap),
            on_dead: outbox.on_dead,
            count_outages: outbox.count_outages,
        },
        cleanup: outbox
            .cleanup
            .map(|Cleanup { keep, every, batch }| relay::Cleanup { keep, every, batch }),
        ..relay::Config::default()
    }
}
