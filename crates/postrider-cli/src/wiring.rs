//! The one place where a name in the config becomes a store or a broker.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anyhow::Context as _;
use postrider::brokers::kafka::{self, KafkaPublisher, KafkaReadback};
use postrider::brokers::memory::MemoryBroker;
use postrider::brokers::pubsub::PubSubPublisher;
use postrider::core::operate::OVERDUE;
use postrider::core::{
    Backoff, Finding, Layout, ManagedStore, PublishError, Publisher, Readback, RetryPolicy, Router,
    StoreError, Topic,
};
use postrider::relay;
use postrider::stores::Wake;
pub(crate) use postrider::stores::postgres::InitOptions;
use postrider::stores::postgres::{self, Options, PostgresStore};
use postrider::stores::sqlite::{self, SqliteStore};
use postrider::{Metrics, Relay};
use tokio::sync::Notify;

use crate::config::{
    Broker, BrokerOptions, Cleanup, Config, ConfigError, DatabaseKind, DatabaseUrl, Outbox,
};

pub(crate) type Store = Arc<dyn ManagedStore>;
pub(crate) type Publishers = BTreeMap<String, Arc<dyn Publisher>>;

/// The table of an outbox, for an operator. Connects when it is first used.
pub(crate) fn store(outbox: &Outbox) -> Result<Store, ConfigError> {
    Ok(match outbox.database.kind() {
        DatabaseKind::Postgres => {
            let (url, connections) = (outbox.database.expose(), outbox.connections);
            Arc::new(postgres_store(outbox, postgres::connect(url, connections))?)
        }
        DatabaseKind::Sqlite => Arc::new(sqlite_store(outbox)?),
    })
}

/// The same for what only a stream in Postgres can do.
pub(crate) fn stream_store(outbox: &Outbox) -> Result<PostgresStore, ConfigError> {
    let (url, connections) = (outbox.database.expose(), outbox.connections);
    postgres_store(outbox, postgres::connect(url, connections))
}

/// The same for a relay, whose sessions can be told from others.
pub(crate) fn relay_store(outbox: &Outbox) -> Result<Store, ConfigError> {
    Ok(match outbox.database.kind() {
        DatabaseKind::Postgres => Arc::new(postgres_relay_store(outbox)?),
        DatabaseKind::Sqlite => Arc::new(sqlite_store(outbox)?),
    })
}

fn postgres_relay_store(outbox: &Outbox) -> Result<PostgresStore, ConfigError> {
    let (url, connections) = (outbox.database.expose(), outbox.connections);
    postgres_store(
        outbox,
        postgres::connect_relay(url, connections, &outbox.name),
    )
}

fn postgres_store(
    outbox: &Outbox,
    pool: Result<postgres::PgPool, StoreError>,
) -> Result<PostgresStore, ConfigError> {
    let pool = pool.map_err(|error| ConfigError::in_database(&outbox.name, error.to_string()))?;
    Ok(PostgresStore::new(pool, options(outbox)))
}

fn sqlite_store(outbox: &Outbox) -> Result<SqliteStore, ConfigError> {
    let file = sqlite_file(outbox.database.expose(), outbox.connections)
        .map_err(|error| ConfigError::in_database(&outbox.name, error.to_string()))?;
    Ok(SqliteStore::new(file, options(outbox)))
}

/// The same connections for all outboxes of a file: it has one writer.
fn sqlite_file(url: &str, connections: u32) -> Result<sqlite::Database, StoreError> {
    static FILES: LazyLock<Mutex<BTreeMap<String, sqlite::Database>>> =
        LazyLock::new(Mutex::default);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = files.get(url) {
        return Ok(file.clone());
    }
    let file = sqlite::connect(url, connections)?;
    files.insert(url.to_owned(), file.clone());
    Ok(file)
}

fn options(outbox: &Outbox) -> Options {
    Options {
        name: outbox.name.clone(),
        layout: outbox.layout.clone(),
        overdue: OVERDUE,
        max_attempts: outbox.max_attempts,
        on_dead: outbox.on_dead,
        lease: outbox.lease,
        hold_max: outbox.lease,
        order_is_drawn: outbox.order_is_drawn,
    }
}

/// The statements that create what a layout needs.
pub(crate) fn ddl(kind: DatabaseKind, layout: &Layout, options: &InitOptions) -> Vec<String> {
    match kind {
        DatabaseKind::Postgres => postgres::ddl(layout, options),
        DatabaseKind::Sqlite => sqlite::ddl(layout, &in_file(options)),
    }
}

/// Creates what a layout needs and the database lacks.
pub(crate) async fn init(
    database: &DatabaseUrl,
    layout: &Layout,
    options: &InitOptions,
) -> Result<(), StoreError> {
    match database.kind() {
        DatabaseKind::Postgres => {
            let pool = postgres::connect(database.expose(), 1)?;
            postgres::init(&pool, layout, options).await
        }
        DatabaseKind::Sqlite => {
            let file = sqlite_file(database.expose(), 1)?;
            sqlite::init(&file, layout, &in_file(options)).await
        }
    }
}

/// A file needs no trigger: whoever watches it sees every commit.
fn in_file(options: &InitOptions) -> sqlite::InitOptions {
    sqlite::InitOptions {
        claim_index: options.claim_index,
    }
}

/// Every broker that an outbox names, once. Connects when it is first used.
pub(crate) fn publishers(config: &Config) -> Result<Publishers, ConfigError> {
    let used = |name: &str| config.outboxes.iter().any(|outbox| outbox.broker == name);
    config
        .brokers
        .iter()
        .filter(|(name, _)| used(name))
        .map(|(name, broker)| {
            let made = publisher(&broker.options)
                .map_err(|reason| ConfigError::in_broker(name, reason))?;
            Ok((name.clone(), made))
        })
        .collect()
}

fn publisher(options: &BrokerOptions) -> Result<Arc<dyn Publisher>, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    Ok(match options {
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
    publisher(&broker.options).map_err(|reason| ConfigError::in_broker(&outbox.broker, reason))
}

/// What is or may become wrong with topics, where the broker can say.
pub(crate) async fn diagnose_topics(
    broker: &Broker,
    topics: &[Topic],
) -> Result<Vec<Finding>, PublishError> {
    match &broker.options {
        BrokerOptions::Kafka(config) => kafka::diagnose(config, topics).await,
        BrokerOptions::PubSub(_) | BrokerOptions::Memory(_) => Ok(Vec::new()),
    }
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
        .config(relay::Config {
            message_bytes_max: message_bytes_max(config, outbox),
            ..relay_config(outbox)
        })
        .metrics(metrics);
    if let Some(broker) = config.brokers.get(&outbox.broker) {
        relay = relay.broker(messaging_system(broker));
    }
    match outbox.database.kind() {
        DatabaseKind::Postgres if !outbox.notify => {}
        DatabaseKind::Postgres => relay = relay.wake(hints(postgres_relay_store(outbox)?.listen())),
        DatabaseKind::Sqlite => relay = relay.wake(hints(sqlite_store(outbox)?.listen())),
    }
    Ok(relay.build())
}

/// Makes publishers for what sends beside an outbox's relay: each is one of its own, because a publisher wants a key in one
/// call at a time. A memory broker is this process's own, and there is one.
pub(crate) fn spare_publisher(
    config: &Config,
    outbox: &Outbox,
    publishers: &Publishers,
) -> impl Fn() -> Result<Arc<dyn Publisher>, String> + use<> {
    let options = config
        .brokers
        .get(&outbox.broker)
        .map(|it| it.options.clone());
    let memory = matches!(options, Some(BrokerOptions::Memory(_)));
    let shared = publishers.get(&outbox.broker).filter(|_| memory).cloned();
    move || match (&options, &shared) {
        (_, Some(shared)) => Ok(shared.clone()),
        (Some(options), None) => publisher(options),
        (None, None) => Err("the outbox has no broker".into()),
    }
}

/// The largest payload that a broker takes, before its envelope and headers are counted.
pub(crate) fn payload_bytes_max(broker: &Broker) -> u64 {
    match &broker.options {
        BrokerOptions::Kafka(config) => u64::from(config.message_bytes_max),
        // The service's own limit; it has no setting.
        BrokerOptions::PubSub(_) => 10_000_000,
        BrokerOptions::Memory(config) => config.message_bytes_max as u64,
    }
}

/// The same of an outbox's broker: what is larger is dead before a message is made of it.
fn message_bytes_max(config: &Config, outbox: &Outbox) -> Option<usize> {
    let bytes = config.brokers.get(&outbox.broker).map(payload_bytes_max)?;
    usize::try_from(bytes).ok()
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
fn hints(wake: Wake) -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    let workers = notify.clone();
    // Ends with the process, as the relay does.
    tokio::spawn(async move {
        loop {
            wake.woken().await;
            workers.notify_waiters();
        }
    });
    notify
}

/// How an outbox's relay works.
pub(crate) fn relay_config(outbox: &Outbox) -> relay::Config {
    relay::Config {
        batch: outbox.batch,
        batch_bytes: outbox.batch_bytes as usize,
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
