//! A shop of the test's own: a database, topics and groups with a prefix, and the programs that it runs.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use example_polyshop::events::ORDER_PLACED;
use example_polyshop::init::{SERVICES, init};
use example_polyshop::settings::Settings;
use example_polyshop::{
    ANALYTICS_SERVICE, INVENTORY_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE,
    SEARCH_SERVICE,
};
use postrider_testkit::eventually_within;
use postrider_testkit::kafka::{Kafka, KafkaRecord, fresh_topic_name};
use serde_json::{Value, json};

use crate::database::{FreshDatabase, Schema};
use crate::process::Process;

/// Processes start, join groups and rebalance, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Shop {
    schemas: Vec<Schema>,
    database: FreshDatabase,
    pub(crate) kafka: Kafka,
    prefix: String,
    variables: Vec<(String, String)>,
}

/// What the order service answers.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) order: String,
    pub(crate) event: String,
}

impl Shop {
    /// Prepared by `polyshop init`, with nothing running.
    pub(crate) async fn open() -> Self {
        let shop = Self::closed().await;
        init(&shop.settings(&shop.database.url)).await.unwrap();
        shop
    }

    /// Not even prepared.
    pub(crate) async fn closed() -> Self {
        let database = FreshDatabase::create().await;
        let schemas = SERVICES.map(|tables| Schema::new(&database, tables.schema()));
        Self {
            schemas: schemas.into(),
            database,
            kafka: Kafka::shared(),
            prefix: format!("{}.", fresh_topic_name()),
            variables: vec![("RUST_LOG".into(), "info,postrider=debug".into())],
        }
    }

    /// A variable for the processes that start from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    fn settings(&self, database_url: &str) -> Settings {
        Settings {
            database_url: database_url.into(),
            kafka: self.kafka.bootstrap().into(),
            prefix: self.prefix.clone(),
            listen: ([127, 0, 0, 1], 0).into(),
        }
    }

    pub(crate) fn schema(&self, service: &str) -> &Schema {
        let name = service.replace('-', "_");
        let found = self.schemas.iter().find(|schema| schema.name == name);
        found.unwrap()
    }

    pub(crate) fn orders(&self) -> &Schema {
        self.schema(ORDER_SERVICE)
    }

    pub(crate) fn payments(&self) -> &Schema {
        self.schema(PAYMENT_SERVICE)
    }

    pub(crate) fn inventory(&self) -> &Schema {
        self.schema(INVENTORY_SERVICE)
    }

    pub(crate) fn notifications(&self) -> &Schema {
        self.schema(NOTIFICATION_SERVICE)
    }

    pub(crate) fn search(&self) -> &Schema {
        self.schema(SEARCH_SERVICE)
    }

    pub(crate) fn analytics(&self) -> &Schema {
        self.schema(ANALYTICS_SERVICE)
    }

    pub(crate) fn topic(&self, event_type: &str) -> String {
        format!("{}{event_type}", self.prefix)
    }

    /// Starts the Rust program of a service.
    pub(crate) fn start(&self, service: &str) -> Process {
        let program = programs().join("polyshop");
        self.run(service, &self.schema(service).url, &program, &[service])
    }

    /// Starts the relay that is shipped, with the shop's own config.
    pub(crate) fn start_relay(&self) -> Process {
        let config = here().join("relay.toml");
        let arguments = ["relay", "--config", config.to_str().unwrap()];
        let program = programs().join("postrider");
        self.run("relay", &self.database.url, &program, &arguments)
    }

    /// Starts any program, with the settings that every service has, and those that the relay has.
    pub(crate) fn run(
        &self,
        name: &str,
        database_url: &str,
        program: &Path,
        arguments: &[&str],
    ) -> Process {
        let mut command = Command::new(program);
        command.args(arguments).env("LISTEN", "127.0.0.1:0");
        self.describe(&mut command, database_url);
        command.env("POSTRIDER__ADMIN__LISTEN", "127.0.0.1:0").env(
            "POSTRIDER__BROKER__KAFKA__BOOTSTRAP",
            self.kafka.bootstrap(),
        );
        for tables in SERVICES.iter().filter(|tables| tables.outbox) {
            let outbox = tables.schema().to_uppercase();
            let topic = self.topic("{event_type}");
            command.env(format!("POSTRIDER__OUTBOX__{outbox}__TOPIC"), topic);
        }
        Process::start(name, command)
    }

    /// The shop's command, as its README says it: with these arguments, and the gateway at this port.
    pub(crate) fn run_all(&self, arguments: &[&str], port: u16) -> Process {
        // A shell cannot trap Ctrl-C where whoever started the tests ignores it, as in the background of another shell.
        let mut command = Command::new("env");
        self.describe(&mut command, &self.database.url);
        command
            .arg("--default-signal=INT")
            .arg(here().join("run"))
            .args(arguments)
            .env("PORT", port.to_string())
            .env("POLYSHOP_PROGRAMS", programs());
        Process::start("the shop", command)
    }

    fn describe(&self, command: &mut Command, database_url: &str) {
        command
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .env("DATABASE_URL", database_url)
            .env("KAFKA_BOOTSTRAP", self.kafka.bootstrap())
            .env("TOPIC_PREFIX", &self.prefix)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
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

    /// Waits until each of these services is through with the topic.
    pub(crate) async fn until_all_consumed(&self, services: &[&str], event_type: &str) {
        for service in services {
            self.until_consumed(service, event_type).await;
        }
    }

    /// What was sent for an order, once it is so many mails.
    pub(crate) async fn until_notified(&self, placed: &Placed, count: usize) -> Vec<String> {
        let sql = format!(
            "SELECT kind FROM notifications WHERE order_id = '{}' AND status = 'SENT' ORDER BY kind",
            placed.order
        );
        eventually_within(PATIENCE, "notifications", async || {
            let kinds = self.notifications().texts(&sql).await;
            if kinds.len() == count {
                Ok(kinds)
            } else {
                Err(kinds)
            }
        })
        .await
    }

    /// Waits until an order has ended so.
    pub(crate) async fn until_ended(&self, placed: &Placed, status: &str) {
        let sql = format!("SELECT status FROM orders WHERE id = '{}'", placed.order);
        eventually_within(PATIENCE, "the order ends", async || {
            let found = self.orders().text(&sql).await;
            if found == status { Ok(()) } else { Err(found) }
        })
        .await;
    }

    pub(crate) async fn stock(&self, product: &str, quantity: i64) {
        let insert = format!("INSERT INTO stock VALUES ('{product}', {quantity})");
        self.inventory().execute(&insert).await;
    }

    pub(crate) async fn in_stock(&self, product: &str) -> String {
        let sql = format!("SELECT quantity FROM stock WHERE product_id = '{product}'");
        self.inventory().text(&sql).await
    }

    /// Has the relay send every event again, as one does that died before it could write down what it had sent.
    pub(crate) async fn send_all_again(&self) {
        for tables in SERVICES.iter().filter(|tables| tables.outbox) {
            self.schema(tables.service)
                .execute("UPDATE outbox_events SET processed = false")
                .await;
        }
    }
}

pub(crate) fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `polyshop` and `postrider`. Building the workspace, as `make test` does, has built both; a test of
/// this package alone builds the relay if it is not there.
pub(crate) fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_polyshop")).parent().unwrap();
        if !folder.join("postrider").exists() {
            let mut build = Command::new(env!("CARGO"));
            let built = build.args(["build", "--package", "postrider-cli"]).status();
            assert!(built.unwrap().success(), "the relay cannot be built");
        }
        folder.into()
    })
}

/// Places an order of two books at this price, with headers.
pub(crate) async fn order(service: &Process, price: i64, headers: &[(&str, &str)]) -> Placed {
    order_items(service, &[("book", 2, price)], headers).await
}

/// Places an order of products, each with a quantity and a price.
pub(crate) async fn order_items(
    service: &Process,
    items: &[(&str, i32, i64)],
    headers: &[(&str, &str)],
) -> Placed {
    place(&service.address().await, "u-1", items, headers).await
}

/// The same at the address of a gateway or an order service.
pub(crate) async fn place(
    address: &str,
    user: &str,
    items: &[(&str, i32, i64)],
    headers: &[(&str, &str)],
) -> Placed {
    let item = |(product, quantity, price): &(&str, i32, i64)| json!({ "productId": product, "quantity": quantity, "price": price });
    let items: Vec<Value> = items.iter().map(item).collect();
    let mut request = reqwest::Client::new()
        .post(format!("{address}/orders"))
        .json(&json!({ "userId": user, "items": items }));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let answer = response.text().await.unwrap();
    assert_eq!(status, 201, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    Placed {
        order: answer["orderId"].as_str().unwrap().into(),
        event: answer["eventId"].as_str().unwrap().into(),
    }
}

/// As many ports in a row as the shop takes, and what follows them for Jaeger.
pub(crate) fn free_ports() -> u16 {
    let all_free = |first: &u16| {
        let ports = (*first..first + 20).map(|port| TcpListener::bind(("127.0.0.1", port)));
        ports.collect::<Result<Vec<_>, _>>().is_ok()
    };
    // Below those that systems give to whoever asks for any port.
    let mut places = (12_000_u16..32_000).step_by(20);
    let skip = usize::from(std::process::id() as u16 % 500);
    places
        .nth(skip)
        .into_iter()
        .chain(places)
        .find(all_free)
        .unwrap()
}

/// The dead-letter topic of the orders.
pub(crate) fn dead_orders() -> String {
    format!("{ORDER_PLACED}.dlt")
}
