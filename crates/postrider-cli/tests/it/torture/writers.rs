//! The application under torture: its tables, its writers, and what it knows to have committed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use postrider::core::layout::Layout;
use postrider::core::{Event, OutboxStore as _};
use postrider::stores::postgres::{self, InitOptions, Options, Outbox, PgPool, PostgresStore};
use postrider_testkit::database::{self, Database};
use postrider_testkit::eventually_within;
use postrider_testkit::history::{Seen, Verdict};
use postrider_testkit::kafka::Kafka;
use sqlx::PgConnection;

use super::long;
use super::relays::Target;
use super::times::{self, Times};

const WRITERS: usize = 8;
/// Few, so that writers and relays meet on the same key all the time.
const KEYS: usize = 24;

pub(crate) struct Arena {
    pub(crate) database: Database,
    pub(crate) layout: String,
    pub(crate) ordering: String,
    pub(crate) topic: String,
    pub(crate) kafka: Kafka,
    /// Where the times of events come from.
    pub(crate) times: Times,
    /// Whether the relays know that the database draws them.
    pub(crate) is_drawn: bool,
}

impl Arena {
    pub(crate) async fn new(layout: &str, ordering: &str) -> Self {
        Self::on(layout, ordering, Kafka::shared()).await
    }

    /// The same on another Kafka than the shared one.
    pub(crate) async fn on(layout: &str, ordering: &str, kafka: Kafka) -> Self {
        let database = database::fresh_schema().await;
        let topic = kafka.fresh_topic(4).await;
        let arena = Self {
            database,
            layout: layout.into(),
            ordering: ordering.into(),
            topic,
            kafka,
            times: Times::Drawn,
            is_drawn: false,
        };
        let init = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(arena.pool(), &arena.layout(), &init)
            .await
            .unwrap();
        for sql in [
            "CREATE TABLE keys (key text PRIMARY KEY)",
            "CREATE TABLE truth (key text, number bigint)",
            "CREATE TABLE elsewhere (n int)",
            "CREATE SEQUENCE numbers CACHE 1",
        ] {
            sqlx::query(sql).execute(arena.pool()).await.unwrap();
        }
        sqlx::query("INSERT INTO keys SELECT 'key-' || n FROM generate_series(1, $1) n")
            .bind(KEYS as i32)
            .execute(arena.pool())
            .await
            .unwrap();
        arena
    }

    pub(crate) fn with(self, times: Times) -> Self {
        Self { times, ..self }
    }

    /// The same, with relays that know that no writer brings times of its own.
    pub(crate) fn drawn(self) -> Self {
        Self {
            is_drawn: true,
            ..self
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            kafka: self.kafka.bootstrap().into(),
            database: self.database.url.clone(),
            layout: self.layout.clone(),
            ordering: self.ordering.clone(),
            topic: self.topic.clone(),
            order_is_drawn: self.is_drawn,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.database.pool
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::preset(&self.layout).unwrap()
    }

    /// Writes for `time` with every writer at once; how many events were committed.
    pub(crate) async fn write(&self, time: Duration) -> usize {
        let until = Instant::now() + time;
        self.write_while(&|| Instant::now() < until).await
    }

    /// The same beside long transactions that write, too, until they have ended.
    pub(crate) async fn write_beside_long(&self, time: Duration) -> usize {
        let until = Instant::now() + time;
        let is_over = AtomicBool::new(false);
        let long = async {
            let mut written = 0;
            while written == 0 || Instant::now() < until {
                written += long::write(self).await;
            }
            is_over.store(true, Relaxed);
            written
        };
        let go_on = || !is_over.load(Relaxed);
        let (written, long) = tokio::join!(self.write_while(&go_on), long);
        written + long
    }

    async fn write_while(&self, go_on: &impl Fn() -> bool) -> usize {
        let elsewhere = self.hold_a_transaction_open(go_on);
        let writers = (0..WRITERS).map(|_| self.transactions(go_on));
        let (written, ()) = tokio::join!(futures::future::join_all(writers), elsewhere);
        written.into_iter().sum()
    }

    async fn transactions(&self, go_on: &impl Fn() -> bool) -> usize {
        let outbox = Outbox::new(self.layout());
        let mut committed = 0;
        while go_on() {
            // P6: no transaction of the application may fail because of the relay.
            committed += usize::from(
                self.transaction(&outbox)
                    .await
                    .expect("a business transaction failed"),
            );
        }
        committed
    }

    /// One business transaction; whether it committed.
    async fn transaction(&self, outbox: &Outbox) -> Result<bool, Box<dyn std::error::Error>> {
        let key = format!("key-{}", fastrand::usize(1..=KEYS));
        let mut tx = self.pool().begin().await?;
        if fastrand::bool() {
            // Draws the transaction's xid before the key is locked.
            sqlx::query("INSERT INTO elsewhere VALUES (1)")
                .execute(&mut *tx)
                .await?;
        }
        pause(&mut tx, 10).await?;
        sqlx::query("SELECT 1 FROM keys WHERE key = $1 FOR UPDATE")
            .bind(&key)
            .execute(&mut *tx)
            .await?;
        for _ in 0..fastrand::u32(1..=3) {
            self.put(&mut tx, outbox, &key).await?;
        }
        pause(&mut tx, 10).await?;
        if fastrand::u32(..10) == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Writes one event of the key, and that it was written.
    pub(crate) async fn put(
        &self,
        tx: &mut PgConnection,
        outbox: &Outbox,
        key: &str,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let number: i64 = sqlx::query_scalar("SELECT nextval('numbers')")
            .fetch_one(&mut *tx)
            .await?;
        let event = event(&self.layout, &self.topic, key, number);
        match self.times.of(key) {
            None => {
                outbox.emit(tx, event).await?;
            }
            Some(time) => times::insert(tx, &self.layout, &self.topic, key, &event, time).await?,
        }
        sqlx::query("INSERT INTO truth VALUES ($1, $2)")
            .bind(key)
            .bind(number)
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Somebody else's transaction that holds the horizon back.
    async fn hold_a_transaction_open(&self, go_on: &impl Fn() -> bool) {
        while go_on() {
            let mut tx = self.pool().begin().await.unwrap();
            sqlx::query("INSERT INTO elsewhere VALUES (2)")
                .execute(&mut *tx)
                .await
                .unwrap();
            sqlx::query("SELECT pg_sleep(1.5)")
                .execute(&mut *tx)
                .await
                .unwrap();
            tx.commit().await.unwrap();
        }
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(self.pool())
            .await
            .unwrap()
    }

    pub(crate) async fn wait_until_empty(&self) {
        let store = PostgresStore::new(self.pool().clone(), Options::new(self.layout()));
        eventually_within(
            Duration::from_secs(60),
            "everything is published",
            async || match store.backlog().await.unwrap() {
                backlog if backlog.pending == 0 => Ok(()),
                backlog => Err(backlog),
            },
        )
        .await;
    }

    /// All that is known about the key of an event that came too late: its rows, and its messages in the log.
    pub(crate) async fn story(&self, of: &Seen) -> String {
        let rows: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT to_jsonb(o)::text || ' xmin ' || o.xmin::text || ' xmax ' || o.xmax::text || ' ' || o.ctid::text \
             FROM {} AS o WHERE position($1 in to_jsonb(o)::text) > 0 ORDER BY created_at",
            self.layout().table.quoted(),
        )))
        .bind(format!("\"{}\"", of.key))
        .fetch_all(self.pool())
        .await
        .unwrap();
        let near = |text: &str| {
            let rest = text.split("number").nth(1).unwrap_or_default();
            let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
            let number = digits.split(|c: char| !c.is_ascii_digit()).next();
            let number = number.and_then(|number| number.parse::<i64>().ok());
            number.is_some_and(|number| (number - of.number).abs() < 100)
        };
        let rows = rows.into_iter().map(|(row,)| row).filter(|row| near(row));
        let log = self.kafka.records(&self.topic).await;
        let log = log
            .iter()
            .filter(|record| record.key.as_deref() == Some(of.key.as_bytes()))
            .map(|record| {
                let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default())
                    .into_owned();
                format!(
                    "[{}]@{} {:?} {value}",
                    record.partition, record.offset, record.produced_at
                )
            })
            .filter(|line| near(line));
        let log = log.collect::<Vec<_>>();
        format!(
            "{}\n--\n{}",
            rows.collect::<Vec<_>>().join("\n"),
            log.join("\n")
        )
    }

    /// What was committed against what is on the topic.
    pub(crate) async fn verdict(&self) -> Verdict {
        let truth: Vec<(String, i64)> = sqlx::query_as("SELECT key, number FROM truth")
            .fetch_all(self.pool())
            .await
            .unwrap();
        let committed: Vec<Seen> = truth
            .into_iter()
            .map(|(key, number)| Seen { key, number })
            .collect();
        Verdict::of(&committed, &log(&self.kafka, &self.topic).await)
    }
}

pub(crate) fn event(layout: &str, topic: &str, key: &str, number: i64) -> Event {
    let payload = serde_json::json!({ "key": key, "number": number });
    let event = Event::json(topic, &payload).unwrap();
    match layout {
        "talkie" => Event {
            event_type: String::new(),
            ..event
        }
        .topic(topic)
        .key(key),
        "native" => event.topic(topic).key(key),
        _ => event.aggregate_id(key),
    }
}

/// What is on the topic, in its order.
pub(crate) async fn log(kafka: &Kafka, topic: &str) -> Vec<Seen> {
    let records = kafka.records(topic).await;
    let value = |record: &postrider_testkit::kafka::KafkaRecord| {
        seen(record.value.as_deref().unwrap_or_default())
    };
    records.iter().map(value).collect()
}

/// Reads an event back, with or without PolyShop's envelope around it.
fn seen(value: &[u8]) -> Seen {
    let value: serde_json::Value = serde_json::from_slice(value).unwrap();
    let data = value.get("data").unwrap_or(&value);
    Seen {
        key: data["key"].as_str().unwrap().into(),
        number: data["number"].as_i64().unwrap(),
    }
}

/// Time that a business transaction takes for other things, up to `millis`.
async fn pause(tx: &mut sqlx::PgConnection, millis: u32) -> Result<(), sqlx::Error> {
    if fastrand::bool() {
        let secs = f64::from(fastrand::u32(0..millis)) / 1000.0;
        sqlx::query("SELECT pg_sleep($1)")
            .bind(secs)
            .execute(tx)
            .await?;
    }
    Ok(())
}
