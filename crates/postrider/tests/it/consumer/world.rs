//! A topic in the memory broker, a fresh schema with an inbox, an outbox and a table for effects, and consumers
//! that start and stop on them.

use std::sync::Arc;
use std::time::Duration;

use postrider::Metrics;
use postrider::brokers::memory::{MemoryBroker, MemoryConfig, MemorySubscriptionConfig};
use postrider::consumer::middleware::{DeadLetter, Inbox, Transaction};
use postrider::consumer::{Builder, Consumer};
use postrider::core::{
    EventPayload, Header, Layout, Message, MessageKey, Publisher as _, Subscription, Topic,
};
use postrider::stores::postgres::{
    self, InboxLayout, InitOptions, Outbox, PgInbox, PgPool, PgTransactions, Tx, parked,
};
use postrider_testkit::database::{self, Database};
use postrider_testkit::eventually;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::settings::{ack, config};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) order: i64,
}

impl EventPayload for Placed {
    const EVENT_TYPE: &'static str = "order.placed";
    const VERSION: Option<i32> = Some(1);
}

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) broker: MemoryBroker,
    /// Where dead letters go: a broker of its own, which can fail while the other works.
    pub(crate) graveyard: MemoryBroker,
    pub(crate) topic: Topic,
    pub(crate) metrics: Metrics,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(MemoryConfig::default(), MemoryConfig::default()).await
    }

    pub(crate) async fn with(broker: MemoryConfig, graveyard: MemoryConfig) -> Self {
        let database = database::fresh_schema().await;
        prepare(&database.pool).await;
        Self {
            database,
            broker: MemoryBroker::new(broker),
            graveyard: MemoryBroker::new(graveyard),
            topic: Topic::from("orders"),
            metrics: Metrics::new(),
        }
    }

    pub(crate) fn subscription(&self, group: &str) -> Arc<dyn Subscription> {
        let topics = [self.topic.clone()];
        Arc::new(
            self.broker
                .subscribe(group, &topics, &MemorySubscriptionConfig::default()),
        )
    }

    pub(crate) fn transactions(&self) -> PgTransactions {
        PgTransactions::new(self.database.pool.clone())
    }

    pub(crate) fn inbox(&self) -> PgInbox {
        PgInbox::new(InboxLayout::gopipe())
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::new(Layout::preset("gopipe").unwrap())
    }

    /// A consumer with waits that fit a test.
    pub(crate) fn consumer(&self) -> Builder {
        self.named("payments")
    }

    /// The same with another name, which is also its group's.
    pub(crate) fn named(&self, name: &str) -> Builder {
        self.on(name, self.subscription(name))
    }

    pub(crate) fn on(&self, name: &str, subscription: Arc<dyn Subscription>) -> Builder {
        Consumer::builder(name, subscription)
            .config(config())
            .metrics(&self.metrics)
            .with(ack())
    }

    /// The chain with a transaction and an inbox at its end.
    pub(crate) fn in_transaction(&self, builder: Builder) -> Builder<Tx> {
        let transaction = Transaction::new(self.transactions());
        builder.with(transaction).with(Inbox::new(self.inbox()))
    }

    pub(crate) fn dead_letter(&self) -> DeadLetter {
        DeadLetter::new(Arc::new(self.graveyard.clone()))
    }

    pub(crate) async fn publish(&self, messages: &[Message]) {
        for outcome in self.broker.publish(messages, Duration::from_secs(5)).await {
            outcome.unwrap();
        }
    }

    pub(crate) fn message(&self, id: Uuid, key: &str, order: i64) -> Message {
        let body = serde_json::to_vec(&Placed { order }).unwrap();
        self.message_of(id, key, body)
    }

    /// An event of the right type with a body of any kind.
    pub(crate) fn message_of(&self, id: Uuid, key: &str, body: impl Into<Vec<u8>>) -> Message {
        Message {
            topic: self.topic.clone(),
            key: Some(MessageKey::from(key)),
            ordered: true,
            payload: Some(body.into().into()),
            headers: vec![
                Header::new("event_id", id.to_string()),
                Header::new("event_type", Placed::EVENT_TYPE),
            ],
        }
    }

    /// Publishes a new event of each order, all of one key.
    pub(crate) async fn place(&self, key: &str, orders: impl IntoIterator<Item = i64>) {
        let message = |order| self.message(Uuid::now_v7(), key, order);
        let messages: Vec<Message> = orders.into_iter().map(message).collect();
        self.publish(&messages).await;
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.database.count("effects").await
    }

    /// The orders that have had their effect, in the order in which they had it.
    pub(crate) async fn applied(&self) -> Vec<i64> {
        let texts = self
            .database
            .texts("SELECT order_id FROM effects ORDER BY seq")
            .await;
        texts
            .into_iter()
            .map(|text| text.unwrap().parse().unwrap())
            .collect()
    }

    pub(crate) async fn until_effects(&self, wanted: i64) {
        until(&format!("{wanted} effects"), wanted, async || {
            self.effects().await
        })
        .await;
    }

    /// Messages that the group has not acknowledged.
    pub(crate) async fn unacknowledged(&self) -> u64 {
        self.subscription("payments").lag().await.unwrap()
    }

    pub(crate) async fn until_all_acknowledged(&self) {
        self.until_unacknowledged(0).await;
    }

    /// Waits until so many are left. An effect is seen before its delivery is acknowledged.
    pub(crate) async fn until_unacknowledged(&self, wanted: u64) {
        until("unacknowledged messages", wanted, async || {
            self.unacknowledged().await
        })
        .await;
    }

    pub(crate) fn dead(&self) -> Vec<Message> {
        self.graveyard
            .messages(&Topic::from(format!("{}.dlt", self.topic)))
    }

    pub(crate) async fn until_dead(&self, wanted: usize) -> Vec<Message> {
        until("dead letters", wanted, async || self.dead().len()).await;
        self.dead()
    }

    /// A figure of the consumer `payments`, as the admin endpoint would show it; 0 where there is none yet.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let start = format!("postrider_consumer_{name}{{consumer=\"payments\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a figure is at least this.
    pub(crate) async fn until_metric(&self, name: &str, least: f64) {
        until(name, true, async || self.metric(name) >= least).await;
    }
}

/// The tables of a service. `effects` says in which transaction each effect came to be.
pub(crate) async fn prepare(pool: &PgPool) {
    sqlx::raw_sql(
        "CREATE TABLE effects (event_id text, order_id int8, txid int8 DEFAULT txid_current(), seq bigserial)",
    )
    .execute(pool)
    .await
    .unwrap();
    postgres::inbox::init(pool, &InboxLayout::gopipe())
        .await
        .unwrap();
    parked::init(pool).await.unwrap();
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(pool, &Layout::preset("gopipe").unwrap(), &options)
        .await
        .unwrap();
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

pub(crate) fn json(message: &Message) -> serde_json::Value {
    serde_json::from_slice(message.payload.as_deref().unwrap()).unwrap()
}

/// A consumer at work.
pub(crate) struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(consumer: Consumer) -> Self {
        let shutdown = CancellationToken::new();
        let run = consumer.run(shutdown.clone());
        let task = tokio::spawn(async move { run.await.unwrap() });
        Self { shutdown, task }
    }

    /// Tells it to stop, and does not wait for its end.
    pub(crate) fn tell_to_stop(&self) {
        self.shutdown.cancel();
    }

    /// Stops as SIGTERM would.
    pub(crate) async fn stop(self) {
        self.tell_to_stop();
        tokio::time::timeout(Duration::from_secs(30), self.task)
            .await
            .expect("the consumer ends")
            .unwrap();
    }

    /// Ends as a killed process would: nothing more is done.
    pub(crate) async fn abort(self) {
        self.task.abort();
        let ended = self.task.await;
        assert!(
            ended.is_err_and(|error| error.is_cancelled()),
            "the consumer had ended by itself"
        );
    }
}
