//! A shop of the test's own: a schema for each service, topics and groups with a prefix.

use std::process::Command;
use std::time::Duration;

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::init::{SERVICES, create_topics};
use example_polyshop::settings::Settings;
use example_polyshop::{ANALYTICS_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually_within;
use postrider_testkit::kafka::{Kafka, KafkaRecord, fresh_topic_name};
use serde_json::{Value, json};

use crate::process::Process;

/// Processes start, join groups and rebalance, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Shop {
    databases: Vec<(&'static str, Database)>,
    pub(crate) kafka: Kafka,
    prefix: String,
    variables: Vec<(String, String)>,
}

/// What the order service answers.
pub(crate) struct Placed {
    pub(crate) order: String,
    pub(crate) event: String,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let mut databases = Vec::new();
        for tables in SERVICES {
            let database = fresh_schema().await;
            tables.create(&database.pool).await.unwrap();
            databases.push((tables.service, database));
        }
        let shop = Self {
            databases,
            kafka: Kafka::shared(),
            prefix: format!("{}.", fresh_topic_name()),
            variables: vec![("RUST_LOG".into(), "info,postrider=debug".into())],
        };
        create_topics(&shop.settings(ORDER_SERVICE)).await.unwrap();
        shop
    }

    /// A variable for the processes that start from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    fn settings(&self, service: &str) -> Settings {
        Settings {
            database_url: self.database(service).url.clone(),
            kafka: self.kafka.bootstrap().into(),
            prefix: self.prefix.clone(),
        }
    }

    fn database(&self, service: &str) -> &Database {
        let found = self.databases.iter().find(|(name, _)| *name == service);
        &found.unwrap().1
    }

    pub(crate) fn orders(&self) -> &Database {
        self.database(ORDER_SERVICE)
    }

    pub(crate) fn payments(&self) -> &Database {
        self.database(PAYMENT_SERVICE)
    }

    pub(crate) fn notifications(&self) -> &Database {
        self.database(NOTIFICATION_SERVICE)
    }

    pub(crate) fn analytics(&self) -> &Database {
        self.database(ANALYTICS_SERVICE)
    }

    pub(crate) fn topic(&self, event_type: &str) -> String {
        format!("{}{event_type}", self.prefix)
    }

    /// Starts the Rust program of a service.
    pub(crate) fn start(&self, service: &str) -> Process {
        self.run(service, service, env!("CARGO_BIN_EXE_polyshop"), &[service])
    }

    /// Starts a relay for a service that has none of its own.
    pub(crate) fn start_relay(&self, service: &str) -> Process {
        let (name, program) = (
            format!("relay of {service}"),
            env!("CARGO_BIN_EXE_polyshop"),
        );
        self.run(&name, service, program, &["relay", service])
    }

    /// Starts any program, with the settings that every service has.
    pub(crate) fn run(
        &self,
        name: &str,
        service: &str,
        program: &str,
        arguments: &[&str],
    ) -> Process {
        let settings = self.settings(service);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .env("DATABASE_URL", settings.database_url)
            .env("KAFKA_BOOTSTRAP", settings.kafka)
            .env("TOPIC_PREFIX", settings.prefix)
            .env("LISTEN", "127.0.0.1:0")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        Process::start(name, command)
    }

    pub(crate) async fn records(&self, event_type: &str) -> Vec<KafkaRecord> {
        self.kafka.records(&self.topic(event_type)).await
    }

    /// Waits until a topic holds so many records.
    pub(crate) async fn until_published(&self, event_type: &str, count: usize) -> Vec<Value> {
        let records = eventually_within(PATIENCE, event_type, async || {
            let records = self.records(event_type).await;
            if records.len() == count {
                Ok(records)
            } else {
                Err(records)
            }
        })
        .await;
        let value = |record: KafkaRecord| serde_json::from_slice(&record.value.unwrap()).unwrap();
        records.into_iter().map(value).collect()
    }

    /// Waits until a service is through with all that a topic holds.
    pub(crate) async fn until_consumed(&self, service: &str, event_type: &str) {
        let (group, topic) = (format!("{}{service}", self.prefix), self.topic(event_type));
        eventually_within(PATIENCE, "all is consumed", async || {
            let committed: i64 = self.kafka.committed(&group, &topic).await.values().sum();
            let count = self.records(event_type).await.len();
            if committed == i64::try_from(count).unwrap() {
                Ok(())
            } else {
                Err((group.clone(), committed, count))
            }
        })
        .await;
    }

    /// Waits until every service is through with every topic that it reads.
    pub(crate) async fn until_all_consumed(&self) {
        for (service, event_type) in [
            (PAYMENT_SERVICE, ORDER_PLACED),
            (ANALYTICS_SERVICE, ORDER_PLACED),
            (NOTIFICATION_SERVICE, ORDER_PLACED),
            (NOTIFICATION_SERVICE, PAYMENT_SUCCEEDED),
        ] {
            self.until_consumed(service, event_type).await;
        }
    }

    /// What was sent for an order, once it is so many mails.
    pub(crate) async fn until_notified(&self, placed: &Placed, count: usize) -> Vec<String> {
        let sql = format!(
            "SELECT kind FROM notifications WHERE order_id = '{}' ORDER BY kind",
            placed.order
        );
        eventually_within(PATIENCE, "notifications", async || {
            let kinds = self.notifications().texts(&sql).await;
            let kinds: Vec<String> = kinds.into_iter().flatten().collect();
            if kinds.len() == count {
                Ok(kinds)
            } else {
                Err(kinds)
            }
        })
        .await
    }

    /// Has the relays send every event again, as one does that died before it could write down what it had sent.
    pub(crate) async fn send_all_again(&self) {
        for database in [self.orders(), self.payments()] {
            database
                .execute("UPDATE outbox_events SET processed = false")
                .await;
        }
    }
}

/// Places an order of two books at this price, with headers.
pub(crate) async fn order(service: &Process, price: i64, headers: &[(&str, &str)]) -> Placed {
    let port = service.logged("listening").await["port"].as_u64().unwrap();
    let body = json!({
        "userId": "u-1",
        "items": [{ "productId": "book", "quantity": 2, "price": price }],
    });
    let mut request = reqwest::Client::new()
        .post(format!("http://127.0.0.1:{port}/orders"))
        .json(&body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    assert_eq!(
        response.status().as_u16(),
        201,
        "{:?}",
        response.text().await
    );
    let answer: Value = response.json().await.unwrap();
    Placed {
        order: answer["orderId"].as_str().unwrap().into(),
        event: answer["eventId"].as_str().unwrap().into(),
    }
}

/// The dead-letter topic of the orders.
pub(crate) fn dead_orders() -> String {
    format!("{ORDER_PLACED}.dlt")
}
