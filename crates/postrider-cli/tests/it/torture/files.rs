//! The application under torture with its outbox in a SQLite file.

use std::time::{Duration, Instant};

use postrider::core::OutboxStore as _;
use postrider::core::layout::Layout;
use postrider::stores::sqlite::{
    self, InitOptions, Options, Outbox, SqliteStore, Tx, connect, init,
};
use postrider_testkit::eventually_within;
use postrider_testkit::history::{Seen, Verdict};
use postrider_testkit::kafka::Kafka;
use postrider_testkit::sqlite::{SqliteFile, fresh_file};
use sqlx::Row as _;

use super::relays::Target;
use super::writers::{event, log};

const WRITERS: usize = 4;
const KEYS: usize = 24;

pub(crate) struct FileArena {
    file: SqliteFile,
    database: sqlite::Database,
    layout: String,
    topic: String,
    kafka: Kafka,
}

impl FileArena {
    pub(crate) async fn new(layout: &str) -> Self {
        let (file, kafka) = (fresh_file(), Kafka::shared());
        let arena = Self {
            database: connect(&file.url, 2).unwrap(),
            file,
            layout: layout.into(),
            topic: kafka.fresh_topic(4).await,
            kafka,
        };
        let options = InitOptions { claim_index: true };
        init(&arena.database, &arena.layout(), &options)
            .await
            .unwrap();
        arena
            .file
            .execute(
                "CREATE TABLE truth (key TEXT, number INTEGER); \
                 CREATE TABLE numbers (n INTEGER); INSERT INTO numbers VALUES (0)",
            )
            .await;
        arena
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            kafka: self.kafka.bootstrap().into(),
            database: self.file.url.clone(),
            layout: self.layout.clone(),
            ordering: "key".into(),
            topic: self.topic.clone(),
            order_is_drawn: false,
        }
    }

    fn layout(&self) -> Layout {
        Layout::preset(&self.layout).unwrap()
    }

    /// Writes for `time` with every writer at once; how many events were committed.
    pub(crate) async fn write(&self, time: Duration) -> usize {
        let until = Instant::now() + time;
        let writers = (0..WRITERS).map(|_| self.write_until(until));
        let written = futures::future::join_all(writers).await;
        written.into_iter().sum()
    }

    async fn write_until(&self, until: Instant) -> usize {
        let outbox = Outbox::new(self.layout());
        let mut committed = 0;
        while Instant::now() < until {
            // No transaction of the application may fail because of the relay.
            committed += self
                .transaction(&outbox)
                .await
                .expect("a business transaction failed");
            // A service has other things to do, too.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..20))).await;
        }
        committed
    }

    /// One business transaction; how many events it committed.
    async fn transaction(&self, outbox: &Outbox) -> Result<usize, Box<dyn std::error::Error>> {
        let key = format!("key-{}", fastrand::usize(1..=KEYS));
        let mut tx = self.database.begin().await?;
        let events = fastrand::usize(1..=3);
        for _ in 0..events {
            let number = next(&mut tx).await?;
            let event = event(&self.layout, &self.topic, &key, number);
            outbox.emit(&mut tx, event).await?;
            sqlx::query("INSERT INTO truth VALUES ($1, $2)")
                .bind(&key)
                .bind(number)
                .execute(&mut *tx)
                .await?;
        }
        if fastrand::u32(..10) == 0 {
            drop(tx);
            return Ok(0);
        }
        self.database.commit(tx).await?;
        Ok(events)
    }

    pub(crate) async fn wait_until_empty(&self) {
        let store = SqliteStore::new(self.database.clone(), Options::new(self.layout()));
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

    /// What was committed against what is on the topic.
    pub(crate) async fn verdict(&self) -> Verdict {
        let rows = sqlx::query("SELECT key, number FROM truth")
            .fetch_all(&self.file.pool)
            .await
            .unwrap();
        let seen = |row: &sqlx::sqlite::SqliteRow| Seen {
            key: row.get(0),
            number: row.get(1),
        };
        let committed: Vec<Seen> = rows.iter().map(seen).collect();
        Verdict::of(&committed, &log(&self.kafka, &self.topic).await)
    }
}

async fn next(tx: &mut Tx) -> Result<i64, sqlx::Error> {
    let row = sqlx::query("UPDATE numbers SET n = n + 1 RETURNING n")
        .fetch_one(tx.connection())
        .await?;
    row.try_get(0)
}
