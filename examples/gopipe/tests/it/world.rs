//! A fresh schema, either broker, and routers that start and stop on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use example_gopipe::broker::Broker;
use example_gopipe::orders::{self, COMMANDS, EVENTS, PlaceOrder};
use example_gopipe::{
    InboxConfig, OutboxConfig, OutboxPublisherConfig, init_inbox, init_outbox, init_publisher,
    router,
};
use postrider::Metrics;
use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::consumer::{Builder, Consumer};
use postrider::core::{Publisher, Topic};
use postrider::stores::postgres::Tx;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) broker: Broker,
    /// Holds up what goes to the broker, while it is shut.
    pub(crate) gate: Arc<Gate>,
    refuses: Arc<AtomicBool>,
    pub(crate) commands: String,
    pub(crate) events: String,
    pub(crate) inbox: InboxConfig,
    pub(crate) outbox: OutboxConfig,
    pub(crate) metrics: Metrics,
}

/// A message on the topic of events.
#[derive(Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Sent {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The set-up of the plan up to the router, once with the broker in the process and once with Kafka.
pub(crate) async fn worlds() -> [World; 2] {
    let memory = World::on(Broker::Memory(MemoryBroker::default()), COMMANDS, EVENTS);
    let mut config = KafkaConfig::new(Kafka::shared().bootstrap());
    // So that a topic which takes no record from the past refuses every one: see `refuse_events`.
    config.linger_ms = 20;
    let publisher = KafkaPublisher::new(config.clone()).unwrap();
    let kafka = Broker::Kafka(config, Arc::new(publisher));
    let (commands, events) = (fresh_topic_name(), fresh_topic_name());
    kafka.create_topics(&[&commands, &events]).await.unwrap();
    [memory.await, World::on(kafka, &commands, &events).await]
}

impl World {
    async fn on(broker: Broker, commands: &str, events: &str) -> Self {
        let database = fresh_schema().await;
        let refuses = Arc::<AtomicBool>::default();
        if let Broker::Memory(memory) = &broker {
            let (refuses, events) = (refuses.clone(), Topic::from(events));
            memory.fail_next(u32::MAX, Fault::Transient, move |message| {
                message.topic == events && refuses.load(Ordering::SeqCst)
            });
        }
        let world = Self {
            refuses,
            gate: Arc::new(Gate::before(broker.publisher())),
            broker,
            commands: commands.into(),
            events: events.into(),
            inbox: InboxConfig::new("order-service"),
            outbox: OutboxConfig::new(events).unwrap(),
            metrics: Metrics::new(),
            database,
        };
        let pool = &world.database.pool;
        init_inbox(pool, &world.inbox).await.unwrap();
        init_outbox(pool, &world.outbox).await.unwrap();
        init_publisher(pool, &world.outbox).await.unwrap();
        orders::init(pool).await.unwrap();
        world
    }

    pub(crate) fn consumer(&self) -> Builder {
        let name = self.inbox.subscriber.as_str();
        let commands = self.broker.subscribe(name, &self.commands).unwrap();
        Consumer::builder(name, commands).metrics(&self.metrics)
    }

    pub(crate) fn router(&self) -> Builder<Tx> {
        let pool = &self.database.pool;
        router(self.consumer(), pool, &self.inbox, &self.outbox)
    }

    /// Sends the message with this id, which orders three lamps.
    pub(crate) async fn send(&self, id: &str) {
        self.send_order(id, "lamp").await;
    }

    /// The same of another item.
    pub(crate) async fn send_order(&self, id: &str, item: &str) {
        let command = PlaceOrder {
            item: item.into(),
            quantity: 3,
        };
        let sent = self.broker.send(&self.commands, id, &command);
        sent.await.unwrap();
    }

    /// Waits until the broker knows that every command was handled.
    pub(crate) async fn until_all_acknowledged(&self) {
        until("all is acknowledged", 0, async || {
            self.unacknowledged().await
        })
        .await;
    }

    /// Commands that the broker would deliver to the next router.
    pub(crate) async fn unacknowledged(&self) -> u64 {
        match &self.broker {
            Broker::Memory(_) => {
                let name = &self.inbox.subscriber;
                let commands = self.broker.subscribe(name, &self.commands).unwrap();
                commands.lag().await.unwrap()
            }
            Broker::Kafka(..) => {
                let committed = self.committed().await;
                let sent = Kafka::shared().records(&self.commands).await.len() as u64;
                sent - committed.values().sum::<i64>().cast_unsigned()
            }
        }
    }

    /// Kafka's view of the router: the offset that it has committed, by partition.
    async fn committed(&self) -> BTreeMap<i32, i64> {
        let group = format!("{}.{}", self.inbox.subscriber, self.commands);
        Kafka::shared().committed(&group, &self.commands).await
    }

    /// Sends further commands until the broker knows that one of them was handled. It then also
    /// knows of every command that had been acknowledged before.
    pub(crate) async fn until_later_ones_are_acknowledged(&self) {
        let before = self.unacknowledged().await;
        assert!(before > 0, "it was acknowledged too early");
        self.send_order("later-0", "chair").await;
        let Broker::Kafka(..) = &self.broker else {
            return until("all later ones are acknowledged", before, async || {
                self.unacknowledged().await
            })
            .await;
        };
        // What comes behind an unacknowledged one in its partition cannot be committed, so that
        // more are sent until one goes to another partition.
        let mut later = 1;
        eventually("a later one is acknowledged", async || {
            let committed: i64 = self.committed().await.values().sum();
            if committed > 0 {
                return Ok(());
            }
            self.send_order(&format!("later-{later}"), "chair").await;
            later += 1;
            Err(later)
        })
        .await;
    }

    /// Whether the broker would not deliver this command again. The broker in the process tells
    /// how many it would deliver and not which: there, it must be the last.
    pub(crate) async fn is_acknowledged(&self, id: &str) -> bool {
        let Broker::Kafka(..) = &self.broker else {
            return self.unacknowledged().await == 0;
        };
        let header = ("id".to_owned(), Some(id.as_bytes().to_vec()));
        let records = Kafka::shared().records(&self.commands).await;
        let found = records
            .iter()
            .find(|record| record.headers.contains(&header));
        let found = found.expect("it was sent");
        let committed = self.committed().await;
        (committed.get(&found.partition)).is_some_and(|next| *next > found.offset)
    }

    /// Rows of the inbox, of the business and of the outbox, as one look sees them.
    pub(crate) async fn rows(&self) -> String {
        let sql = "SELECT (SELECT count(*) FROM processed_messages)::text || ' ' || \
                   (SELECT count(*) FROM orders) || ' ' || (SELECT count(*) FROM outbox)";
        self.database.text(sql).await.unwrap()
    }

    pub(crate) async fn unpublished(&self) -> i64 {
        self.database.count("outbox WHERE NOT published").await
    }

    /// What the topic of events holds.
    pub(crate) async fn sent(&self) -> Vec<Sent> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match &self.broker {
            Broker::Memory(memory) => {
                let messages = memory.messages(&Topic::from(self.events.as_str()));
                let sent = messages.into_iter().map(|message| Sent {
                    payload: message.payload.unwrap_or_default().to_vec(),
                    headers: (message.headers.iter())
                        .map(|header| (header.name.to_string(), text(&header.value)))
                        .collect(),
                });
                sent.collect()
            }
            Broker::Kafka(..) => {
                let records = Kafka::shared().records(&self.events).await;
                let sent = records.into_iter().map(|record| Sent {
                    payload: record.value.unwrap_or_default(),
                    headers: (record.headers.into_iter())
                        .map(|(name, value)| (name, text(&value.unwrap_or_default())))
                        .collect(),
                });
                sent.collect()
            }
        }
    }

    /// From now on the broker takes no event, or takes them again. Kafka is told to refuse records that were made more than
    /// 0 ms before they reach it.
    pub(crate) async fn refuse_events(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
        if let Broker::Kafka(..) = &self.broker {
            let oldest = if refuses { "0" } else { "3600000" };
            let setting = [("message.timestamp.before.max.ms", oldest)];
            Kafka::shared()
                .configure_topic(&self.events, &setting)
                .await;
        }
    }

    /// Starts a publisher that polls quickly.
    pub(crate) fn publish(&self, batch_size: u32) -> Running {
        let config = OutboxPublisherConfig {
            poll_interval: Duration::from_millis(20),
            batch_size,
        };
        let (pool, broker) = (self.database.pool.clone(), self.gate.clone());
        let relay = config.publisher(pool, &self.outbox, broker, &self.metrics);
        Running::start(|shutdown| async move { relay.run(shutdown).await.unwrap() })
    }

    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let start = format!("postrider_consumer_{name}{{consumer=\"order-service\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Makes the commit of every order of this item wait until it is let go.
    pub(crate) async fn hold_up_commit(&self, item: &str) -> HeldUp {
        create_hold_up(&self.database).await;
        let trigger = format!(
            "CREATE CONSTRAINT TRIGGER hold_up AFTER INSERT ON orders \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.item = '{item}') \
             EXECUTE FUNCTION hold_up()"
        );
        self.database.execute(&trigger).await;
        HeldUp::new(&self.database).await
    }

    /// See [`hold_up`].
    pub(crate) async fn hold_up(&self, verb: &str, tables: &[&str]) -> HeldUp {
        hold_up(&self.database, verb, tables).await
    }
}

/// Makes every statement of this kind on the tables wait when it has changed a row, in its transaction, until it is let go.
pub(crate) async fn hold_up(database: &Database, verb: &str, tables: &[&str]) -> HeldUp {
    create_hold_up(database).await;
    for table in tables {
        let trigger = format!(
            "CREATE TRIGGER hold_up AFTER {verb} ON {table} FOR EACH ROW EXECUTE FUNCTION hold_up()"
        );
        database.execute(&trigger).await;
    }
    HeldUp::new(database).await
}

async fn create_hold_up(database: &Database) {
    database
        .execute(
            "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema())); RETURN NULL; END $$",
        )
        .await;
}

pub(crate) struct HeldUp {
    guard: sqlx::Transaction<'static, sqlx::Postgres>,
}

impl HeldUp {
    async fn new(database: &Database) -> Self {
        let mut guard = database.pool.begin().await.unwrap();
        sqlx::query("SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
            .execute(&mut *guard)
            .await
            .unwrap();
        Self { guard }
    }

    /// Waits until so many statements wait.
    pub(crate) async fn until_waiting(&self, database: &Database, statements: i64) {
        let waiting = "pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock' \
                       AND objid::int8 = hashtext(current_schema())::int8 & 4294967295";
        until("statements wait", statements, async || {
            database.count(waiting).await
        })
        .await;
    }

    pub(crate) async fn let_go(self) {
        self.guard.rollback().await.unwrap();
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

    /// Ends as a crash would: what it had begun is cut off.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// A broker as a publisher sees it.
pub(crate) type AnyPublisher = Arc<dyn Publisher>;
