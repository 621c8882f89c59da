//! A fresh schema, a broker inside the process, and routers that start and stop on them.

use std::sync::Arc;
use std::time::Duration;

use example_gopipe::broker::Broker;
use example_gopipe::orders::{self, COMMANDS, EVENTS, PlaceOrder};
use example_gopipe::{InboxConfig, OutboxConfig, init_inbox, init_outbox, router};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider::consumer::{Builder, Consumer};
use postrider::core::{Subscription, Topic};
use postrider::stores::postgres::Tx;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) memory: MemoryBroker,
    pub(crate) broker: Broker,
    pub(crate) inbox: InboxConfig,
    pub(crate) outbox: OutboxConfig,
    pub(crate) metrics: Metrics,
}

impl World {
    /// The set-up of the plan up to the router.
    pub(crate) async fn new() -> Self {
        let database = fresh_schema().await;
        let memory = MemoryBroker::default();
        let world = Self {
            broker: Broker::Memory(memory.clone()),
            memory,
            inbox: InboxConfig::new("order-service"),
            outbox: OutboxConfig::new(EVENTS).unwrap(),
            metrics: Metrics::new(),
            database,
        };
        let pool = &world.database.pool;
        init_inbox(pool, &world.inbox).await.unwrap();
        init_outbox(pool, &world.outbox).await.unwrap();
        orders::init(pool).await.unwrap();
        world
    }

    pub(crate) fn consumer(&self) -> Builder {
        let name = self.inbox.subscriber.as_str();
        let commands = self.broker.subscribe(name, COMMANDS).unwrap();
        Consumer::builder(name, commands).metrics(&self.metrics)
    }

    pub(crate) fn router(&self) -> Builder<Tx> {
        let pool = &self.database.pool;
        router(self.consumer(), pool, &self.inbox, &self.outbox)
    }

    /// Sends the message with this id, which orders three lamps.
    pub(crate) async fn send(&self, id: &str) {
        let command = PlaceOrder {
            item: "lamp".into(),
            quantity: 3,
        };
        self.broker.send(COMMANDS, id, &command).await.unwrap();
    }

    pub(crate) fn commands(&self) -> Arc<dyn Subscription> {
        self.broker
            .subscribe(&self.inbox.subscriber, COMMANDS)
            .unwrap()
    }

    pub(crate) async fn until_all_acknowledged(&self) {
        let commands = self.commands();
        until("all is acknowledged", Some(0), async || {
            commands.lag().await
        })
        .await;
    }

    /// Rows of the inbox, of the business and of the outbox, as one look sees them.
    pub(crate) async fn rows(&self) -> String {
        let sql = "SELECT (SELECT count(*) FROM processed_messages)::text || ' ' || \
                   (SELECT count(*) FROM orders) || ' ' || (SELECT count(*) FROM outbox)";
        self.database.text(sql).await.unwrap()
    }

    /// How many messages went to the topic of events.
    pub(crate) fn published(&self) -> u64 {
        self.memory.accepted(&Topic::from(EVENTS))
    }

    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let start = format!("postrider_consumer_{name}{{consumer=\"order-service\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.map_or(0.0, |value| value.parse().unwrap())
    }
}

/// Waits until something has a value.
pub(crate) async fn until<V: PartialEq + std::fmt::Debug>(
    what: &str,
    wanted: V,
    mut look: impl AsyncFnMut() -> V,
) {
    eventually(what, async || match look().await {
        found if found == wanted => Ok(()),
        found => Err(found),
    })
    .await;
}

/// A task that runs until it is told to stop.
pub(crate) struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn consumer(consumer: Consumer) -> Self {
        Self::start(|shutdown| async move { consumer.run(shutdown).await.unwrap() })
    }

    pub(crate) fn start<F>(run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(shutdown.clone()));
        Self { shutdown, task }
    }

    pub(crate) fn tell_to_stop(&self) {
        self.shutdown.cancel();
    }

    /// Stops as SIGTERM would.
    pub(crate) async fn stop(self) {
        self.tell_to_stop();
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task);
        ended.await.expect("it ends").unwrap();
    }
}
