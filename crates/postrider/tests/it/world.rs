//! One outbox in a fresh schema, and relays that start and stop on it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use postrider::Health;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::layout::Template;
use postrider::core::{
    Backoff, Emitted, Event, Layout, Message, OnDead, OutboxStore, Publisher, RecordFilter,
    RecordState, Records as _, RetryPolicy, Router, Routes, StoredRecord, Topic,
};
use postrider::relay::{Config, Dial, RelayError};
use postrider::stores::postgres::{self, InitOptions, Options, Outbox, PgPool, PostgresStore};
use postrider::{Metrics, Relay};
use postrider_testkit::database::{self, Database};
use postrider_testkit::eventually;
use postrider_testkit::history::Seen;
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) struct World {
    pool: PgPool,
    /// Goes with the last use of it; none where the test has a server of its own.
    _database: Option<Database>,
    pub(crate) layout: Layout,
    pub(crate) max_attempts: u32,
    pub(crate) on_dead: OnDead,
    pub(crate) lease: Duration,
}

impl World {
    /// The preset's table in a schema of its own.
    pub(crate) async fn new(preset: &str) -> Self {
        Self::with(preset, |_| {}).await
    }

    /// The same with some of the layout changed before the table is made.
    pub(crate) async fn with(preset: &str, change: impl FnOnce(&mut Layout)) -> Self {
        let mut layout = Layout::preset(preset).unwrap();
        change(&mut layout);
        let database = database::fresh_schema().await;
        let mut world = Self::on(database.pool.clone(), layout);
        world._database = Some(database);
        let init = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(world.pool(), &world.layout, &init)
            .await
            .unwrap();
        world
    }

    /// A database that the caller has prepared.
    pub(crate) fn on(pool: PgPool, layout: Layout) -> Self {
        Self {
            pool,
            _database: None,
            max_attempts: layout.defaults.max_attempts.unwrap_or(25),
            layout,
            on_dead: OnDead::Park,
            lease: Duration::from_secs(30),
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::new(self.layout.clone())
    }

    pub(crate) fn store(&self) -> PostgresStore {
        let options = Options {
            max_attempts: self.max_attempts,
            on_dead: self.on_dead,
            lease: self.lease,
            ..Options::new(self.layout.clone())
        };
        PostgresStore::new(self.pool().clone(), options)
    }

    /// Emits events in one transaction that commits.
    pub(crate) async fn emit(&self, events: impl IntoIterator<Item = Event>) {
        let outbox = self.outbox();
        let mut tx = self.pool().begin().await.unwrap();
        for event in events {
            let emitted = outbox.emit(&mut tx, event).await.unwrap();
            assert_eq!(emitted, Emitted::Recorded);
        }
        tx.commit().await.unwrap();
    }

    /// Rows of PackFinderz by plain SQL, as many as one likes.
    pub(crate) async fn insert_licenses(&self, count: usize) {
        self.execute(&format!(
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
             SELECT id, 'license_status_changed', 'license', gen_random_uuid(), jsonb_build_object( \
               'version', 1, 'eventId', id, 'occurredAt', now(), 'data', jsonb_build_object('n', n)) \
             FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, {count}) n) AS made"
        ))
        .await;
    }

    /// Runs statements of the test's own, as an application in any language would.
    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(self.pool())
            .await
            .unwrap();
    }

    pub(crate) async fn rows(&self, sql: &str) -> Vec<PgRow> {
        sqlx::query(AssertSqlSafe(sql))
            .fetch_all(self.pool())
            .await
            .unwrap()
    }

    /// The first column of every row, which must be text; `None` where it is NULL.
    pub(crate) async fn column(&self, sql: &str) -> Vec<Option<String>> {
        self.rows(sql).await.iter().map(|row| row.get(0)).collect()
    }

    /// A single number, of `count(*)` for example.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.rows(sql).await[0].get(0)
    }

    /// A single text.
    pub(crate) async fn text(&self, sql: &str) -> String {
        self.rows(sql).await[0].get(0)
    }

    pub(crate) async fn flag(&self, sql: &str) -> bool {
        self.rows(sql).await[0].get(0)
    }

    /// Waits until the query counts `expected`.
    pub(crate) async fn until_count(&self, what: &str, expected: i64, sql: &str) {
        eventually(what, async || match self.number(sql).await {
            count if count == expected => Ok(()),
            count => Err(count),
        })
        .await;
    }

    /// Waits until nothing is left to publish.
    pub(crate) async fn until_drained(&self) {
        let store = self.store();
        eventually("everything is published", async || {
            match store.backlog().await.unwrap() {
                backlog if backlog.pending == 0 => Ok(()),
                backlog => Err(backlog),
            }
        })
        .await;
    }

    /// Records that are still to be published, those in flight included.
    pub(crate) async fn pending(&self) -> u64 {
        self.store().backlog().await.unwrap().pending
    }

    pub(crate) async fn dead(&self) -> Vec<StoredRecord> {
        self.in_state(RecordState::Dead).await
    }

    pub(crate) async fn in_state(&self, state: RecordState) -> Vec<StoredRecord> {
        let filter = RecordFilter::in_state(state);
        self.store().find(&filter, None, 1000).await.unwrap().items
    }

    /// Waits until so many records are dead.
    pub(crate) async fn until_dead(&self, count: usize) -> Vec<StoredRecord> {
        eventually("records are dead", async || match self.dead().await {
            dead if dead.len() == count => Ok(dead),
            dead => Err(dead),
        })
        .await
    }

    /// An event that fits the preset's table, whose payload holds `key`. Where the layout has keys,
    /// events with the same one share theirs.
    pub(crate) fn sample(&self, key: &str) -> Event {
        self.numbered_sample(key, 0)
    }

    /// The same with a number, which [`seen_sample`] reads back.
    pub(crate) fn numbered_sample(&self, key: &str, number: i64) -> Event {
        let payload = json!({ "key": key, "number": number });
        let topic = self.sample_topic();
        match self.layout.name.as_str() {
            "packfinderz" => {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                let id = Uuid::from_u64_pair(hasher.finish(), 0).to_string();
                let event = Event::json("license_status_changed", &payload).unwrap();
                event.aggregate("license", id)
            }
            "polyshop" => Event::json(topic, &payload).unwrap().aggregate_id(key),
            "talkie" => Event::json("", &payload).unwrap().topic(topic).key(key),
            "native" => Event::json("sampled", &payload)
                .unwrap()
                .topic(topic)
                .key(key),
            _ => Event::json("sampled", &payload).unwrap().topic(topic),
        }
    }

    /// Where samples go.
    pub(crate) fn sample_topic(&self) -> &'static str {
        if self.layout.name == "packfinderz" {
            "pf-domain-events"
        } else {
            "samples"
        }
    }

    /// The attribute that the layout puts the event's id into.
    pub(crate) fn id_attribute(&self) -> &'static str {
        if self.layout.name == "gopipe" {
            "id"
        } else {
            "event_id"
        }
    }

    /// The numbers of a key's samples that the broker has, in its order.
    pub(crate) fn sample_numbers(&self, broker: &MemoryBroker, key: &str) -> Vec<i64> {
        let messages = broker.messages(&Topic::from(self.sample_topic()));
        let samples = messages.iter().map(seen_sample);
        samples
            .filter(|seen| seen.key == key)
            .map(|seen| seen.number)
            .collect()
    }

    /// The ids of the samples that the broker has, in its order.
    pub(crate) fn sample_ids(&self, broker: &MemoryBroker) -> Vec<String> {
        event_ids(broker, self.sample_topic(), self.id_attribute())
    }

    pub(crate) fn relay(&self, publisher: impl Publisher + 'static) -> Plan {
        Plan {
            store: Arc::new(self.store()),
            publisher: Arc::new(publisher),
            routes: Routes::new(),
            layout: self.layout.clone(),
            source: None,
            metrics: Metrics::new(),
            name: "outbox".into(),
            config: self.config(),
            wake: Arc::default(),
        }
    }

    /// Settings that make a test quick; what they leave out is the default.
    fn config(&self) -> Config {
        Config {
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_millis(50),
            publish_timeout: Duration::from_secs(10),
            ordering: self.layout.ordering,
            retry: RetryPolicy {
                max_attempts: self.max_attempts,
                backoff: Backoff::new(Duration::from_millis(20), Duration::from_millis(100)),
                on_dead: self.on_dead,
                count_outages: false,
            },
            outage_backoff: Backoff::new(Duration::from_millis(20), Duration::from_millis(200)),
            backlog_every: Duration::from_millis(100),
            probe_every: Duration::from_millis(100),
            ..Config::default()
        }
    }
}

/// A relay that is not running yet.
pub(crate) struct Plan {
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    routes: Routes,
    layout: Layout,
    source: Option<String>,
    metrics: Metrics,
    name: String,
    config: Config,
    wake: Arc<Notify>,
}

impl Plan {
    pub(crate) fn store(mut self, store: impl OutboxStore + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    pub(crate) fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    pub(crate) fn source(mut self, source: &str) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    pub(crate) fn wake(mut self, wake: &Arc<Notify>) -> Self {
        self.wake = Arc::clone(wake);
        self
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn start(self) -> Running {
        let router = Router::new(&self.layout, self.routes, self.source);
        let relay = Relay::builder(self.store, self.publisher, router)
            .name(self.name)
            .config(self.config)
            .metrics(&self.metrics)
            .wake(self.wake)
            .build();
        let (health, dial) = (relay.health(), relay.dial());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(relay.run(shutdown.clone()));
        Running {
            health,
            dial,
            metrics: self.metrics,
            shutdown,
            task,
        }
    }
}

/// A relay that runs.
pub(crate) struct Running {
    pub(crate) health: Health,
    pub(crate) dial: Dial,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
    task: JoinHandle<Result<(), RelayError>>,
}

impl Running {
    /// Stops as SIGTERM would: what is in flight is finished.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.end().await.unwrap();
    }

    /// Ends as a killed process would: nothing more is done.
    pub(crate) async fn abort(self) {
        self.task.abort();
        let ended = self.task.await;
        assert!(
            ended.is_err_and(|error| error.is_cancelled()),
            "the relay had ended by itself"
        );
    }

    /// Waits for the relay's own end.
    pub(crate) async fn end(self) -> Result<(), RelayError> {
        tokio::time::timeout(Duration::from_secs(60), self.task)
            .await
            .expect("the relay ends")
            .expect("the relay's own task does not panic")
    }

    pub(crate) async fn until_ready(&self) {
        eventually("the relay is ready", async || match self.health.report() {
            report if report.is_ready() => Ok(()),
            report => Err(report),
        })
        .await;
    }

    /// A metric's value, as the admin endpoint would show it.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        metric(&self.metrics, name, "outbox")
    }

    /// Waits until a metric has a value.
    pub(crate) async fn until_metric(&self, name: &str, expected: f64) {
        eventually(name, async || match self.metric(name) {
            value if value == expected => Ok(()),
            value => Err(value),
        })
        .await;
    }
}

pub(crate) fn metric(metrics: &Metrics, name: &str, outbox: &str) -> f64 {
    let text = metrics.encode();
    let start = format!("{name}{{outbox=\"{outbox}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value
        .unwrap_or_else(|| panic!("no {name} of {outbox} in\n{text}"))
        .parse()
        .unwrap()
}

pub(crate) fn template(text: &str) -> Template {
    text.to_owned().try_into().unwrap()
}

pub(crate) fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message
        .headers
        .iter()
        .find(|h| &*h.name == name)
        .and_then(|h| h.text())
}

/// Reads a numbered sample back, with or without an envelope around it.
pub(crate) fn seen_sample(message: &Message) -> Seen {
    let body: Value = serde_json::from_slice(message.payload.as_deref().unwrap()).unwrap();
    let data = body.get("data").unwrap_or(&body);
    let key = data["key"].as_str().unwrap().to_owned();
    Seen {
        key,
        number: data["number"].as_i64().unwrap(),
    }
}

/// Whether the message is this numbered sample.
pub(crate) fn is_sample(
    key: &'static str,
    number: i64,
) -> impl Fn(&Message) -> bool + Send + 'static {
    move |message| {
        let seen = seen_sample(message);
        seen.key == key && seen.number == number
    }
}

/// Whether the message's body holds this text.
pub(crate) fn holds(message: &Message, text: &str) -> bool {
    String::from_utf8_lossy(message.payload.as_deref().unwrap_or_default()).contains(text)
}

/// The event ids on a topic of the memory broker, in its order.
pub(crate) fn event_ids(broker: &MemoryBroker, topic: &str, attribute: &str) -> Vec<String> {
    let messages = broker.messages(&Topic::from(topic));
    messages
        .iter()
        .map(|message| header(message, attribute).unwrap().into())
        .collect()
}

/// Waits until so many calls of `publish` are held by the blocked broker.
pub(crate) async fn until_held(broker: &MemoryBroker, calls: usize) {
    let held = broker.wait_until_held(calls);
    tokio::time::timeout(Duration::from_secs(30), held)
        .await
        .expect("calls are held");
}

pub(crate) async fn until_accepted(broker: &MemoryBroker, topic: &str, count: u64) {
    eventually("the broker has the messages", async || {
        match broker.accepted(&Topic::from(topic)) {
            accepted if accepted >= count => Ok(()),
            accepted => Err(accepted),
        }
    })
    .await;
}
