//! A shop that writes orders, a service that confirms them, and the broker between the two.

use postrider::core::{Layout, OutboxStore as _};
use postrider::stores::postgres::{self, InboxLayout, InitOptions, Options, Outbox, PostgresStore};
use postrider_testkit::database::{self, Database};
use postrider_testkit::history::Seen;
use postrider_testkit::kafka::Kafka;
use postrider_testkit::pubsub::{PubSub, PubSubTopic};
use postrider_testkit::redis::{self, Redis};
use serde_json::Value;

use super::processes::{Process, Settings, until_even};

/// Few, so that writers, relays and consumers meet on the same key all the time.
pub(super) const CUSTOMERS: usize = 16;

/// A consumer that is started again under its name goes on at once. Where it has none, its partitions wait for
/// the end of the dead one's session.
pub(crate) const MEMBER_ONE: (&str, &str) = ("KAFKA_PROPERTIES", "group.instance.id=one");
pub(crate) const MEMBER_TWO: (&str, &str) = ("KAFKA_PROPERTIES", "group.instance.id=two");

pub(crate) struct Arena {
    /// Where orders are written.
    pub(super) shop: Database,
    /// Where their effects go.
    pub(crate) service: Database,
    broker: Broker,
    pub(super) outbox: Outbox,
    redis_prefix: String,
}

enum Broker {
    Kafka {
        server: Kafka,
        topic: String,
    },
    PubSub {
        server: PubSub,
        topic: PubSubTopic,
        subscription: String,
    },
}

impl Arena {
    pub(crate) async fn on_kafka(partitions: i32) -> Self {
        let server = Kafka::shared();
        let topic = server.fresh_topic(partitions).await;
        server
            .create_topic(&format!("{topic}.followups"), partitions, &[])
            .await;
        Self::on(Broker::Kafka { server, topic }).await
    }

    pub(crate) async fn on_pubsub() -> Self {
        let server = PubSub::shared();
        let topic = server.fresh_topic().await;
        let subscription = server.subscribe(topic.id(), true).await;
        Self::on(Broker::PubSub {
            server,
            topic,
            subscription,
        })
        .await
    }

    async fn on(broker: Broker) -> Self {
        let (shop, service) = (
            database::fresh_schema().await,
            database::fresh_schema().await,
        );
        for database in [&shop, &service] {
            let options = InitOptions {
                claim_index: true,
                notify: false,
            };
            let made = postgres::init(&database.pool, &layout(), &options).await;
            made.unwrap();
        }
        let inbox = postgres::inbox::init(&service.pool, &InboxLayout::gopipe()).await;
        inbox.unwrap();
        service
            .execute(include_str!("../../../examples/shop/schema.sql"))
            .await;
        shop.execute(&format!(
            "CREATE TABLE customers (customer text PRIMARY KEY); \
             CREATE TABLE orders (event_id text, customer text, number int8); \
             CREATE SEQUENCE numbers CACHE 1; \
             INSERT INTO customers SELECT 'customer-' || n FROM generate_series(1, {CUSTOMERS}) n"
        ))
        .await;
        Self {
            shop,
            service,
            broker,
            outbox: Outbox::new(layout()),
            redis_prefix: redis::fresh_prefix(),
        }
    }

    pub(crate) fn relay(&self) -> Process {
        let mut settings = self.broker();
        settings.push(("DATABASE_URL", self.shop.url.clone()));
        Process::start("relay", settings)
    }

    /// A member of the arena's consumer group, with settings that differ from the example's own.
    pub(crate) fn consumer(&self, different: &[(&'static str, &str)]) -> Process {
        let mut settings = self.broker();
        settings.extend([
            ("DATABASE_URL", self.service.url.clone()),
            ("GROUP", format!("confirmations-{}", self.service.schema)),
            ("WORK_MS", "10".into()),
            ("SESSION_MS", "6000".into()),
            ("REDIS_URL", Redis::shared().url()),
            ("REDIS_PREFIX", self.redis_prefix.clone()),
            ("RESERVATION_SECS", "2".into()),
        ]);
        settings.extend(
            different
                .iter()
                .map(|(name, value)| (*name, value.to_string())),
        );
        Process::start("consumer", settings)
    }

    fn broker(&self) -> Settings {
        let mut settings = match &self.broker {
            Broker::Kafka { server, topic } => vec![
                ("BROKER", "kafka".into()),
                ("KAFKA", server.bootstrap().into()),
                ("TOPIC", topic.clone()),
            ],
            Broker::PubSub {
                server,
                topic,
                subscription,
            } => vec![
                ("BROKER", "pubsub".into()),
                (
                    "PUBSUB_EMULATOR_HOST",
                    server.endpoint().replace("http://", ""),
                ),
                ("PROJECT", server.project().into()),
                ("TOPIC", topic.id().into()),
                ("SUBSCRIPTION", subscription.clone()),
                // As short as can be: it is how long a killed process keeps its messages.
                ("LEASE_SECS", "10".into()),
                ("IN_FLIGHT_MAX", "20".into()),
            ],
        };
        settings.push(("RELAY_BATCH", "20".into()));
        settings.push((
            "RUST_LOG",
            std::env::var("RUST_LOG").unwrap_or("error".into()),
        ));
        settings
    }

    /// Waits until every order has its effect and both outboxes are empty.
    pub(crate) async fn until_quiet(&self) {
        let orders = self.orders().await;
        until_even("every order has its effect", async || {
            let applied = self
                .service
                .number("SELECT count(DISTINCT event_id) FROM effects");
            (applied.await, orders)
        })
        .await;
        for database in [&self.shop, &self.service] {
            let store = PostgresStore::new(database.pool.clone(), Options::new(layout()));
            until_even("everything is published", async || {
                (store.backlog().await.unwrap().pending, 0)
            })
            .await;
        }
    }

    pub(crate) async fn orders(&self) -> i64 {
        self.shop.count("orders").await
    }

    pub(crate) async fn committed(&self) -> Vec<Seen> {
        history(&self.shop, "SELECT customer, number FROM orders").await
    }

    /// In the order in which they happened.
    pub(crate) async fn effects(&self) -> Vec<Seen> {
        history(
            &self.service,
            "SELECT customer, number FROM effects ORDER BY serial",
        )
        .await
    }

    /// Captured follow-ups in the order in which they will leave.
    pub(crate) async fn captured(&self) -> Vec<Seen> {
        let sql = "SELECT payload->>'customer', (payload->>'number')::int8 FROM outbox_events \
                   ORDER BY created_at, id";
        history(&self.service, sql).await
    }

    /// Captured follow-ups that do not name the order that they follow.
    pub(crate) async fn without_cause(&self) -> i64 {
        let from = "outbox_events o WHERE NOT EXISTS (SELECT FROM effects e WHERE \
                    e.event_id = o.metadata->>'causationId' AND e.number = (o.payload->>'number')::int8)";
        self.service.count(from).await
    }

    /// What stands in the topic, or in another one whose name begins like that.
    pub(crate) async fn log(&self, suffix: &str) -> Vec<Seen> {
        let bodies: Vec<Vec<u8>> = match &self.broker {
            Broker::Kafka { server, topic } => {
                let records = server.records(&format!("{topic}{suffix}")).await;
                records
                    .into_iter()
                    .filter_map(|record| record.value)
                    .collect()
            }
            Broker::PubSub { topic, .. } => {
                let messages = topic.messages().await;
                messages.into_iter().map(|message| message.data).collect()
            }
        };
        bodies.iter().map(|body| seen(body)).collect()
    }
}

fn layout() -> Layout {
    Layout::preset("polyshop").unwrap()
}

async fn history(database: &Database, sql: &'static str) -> Vec<Seen> {
    let rows: Vec<(String, i64)> = sqlx::query_as(sql).fetch_all(&database.pool).await.unwrap();
    rows.into_iter()
        .map(|(key, number)| Seen { key, number })
        .collect()
}

fn seen(body: &[u8]) -> Seen {
    let body: Value = serde_json::from_slice(body).unwrap();
    Seen {
        key: body["data"]["customer"].as_str().unwrap().into(),
        number: body["data"]["number"].as_i64().unwrap(),
    }
}
