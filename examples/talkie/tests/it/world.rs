//! A fresh schema with Talkie's tables.

use std::sync::Arc;

use example_talkie::chat::{Chat, NewMessage, Posted, TOPIC};
use example_talkie::{OutboxModule, OutboxSettings};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) metrics: Metrics,
}

impl World {
    pub(crate) async fn new() -> Self {
        let database = fresh_schema().await;
        Chat::init(&database.pool).await.unwrap();
        OutboxModule::init(&database.pool).await.unwrap();
        let metrics = Metrics::new();
        Self { database, metrics }
    }

    /// Posts a message as the application does.
    pub(crate) async fn post(&self, room: &str) -> NewMessage {
        let chat = Chat::new(self.database.pool.clone(), TOPIC, &self.metrics).unwrap();
        let message = message(room, "hello");
        assert_eq!(chat.post(&message).await.unwrap(), Posted::Recorded);
        message
    }

    pub(crate) fn start(&self, broker: &MemoryBroker, settings: &OutboxSettings) -> OutboxModule {
        let (pool, broker) = (self.database.pool.clone(), Arc::new(broker.clone()));
        OutboxModule::start(pool, broker, settings, &self.metrics).unwrap()
    }

    /// `status` and `retry_count` of a room's only record.
    pub(crate) async fn state(&self, room: &str) -> Option<String> {
        let sql =
            format!("SELECT status || ' ' || retry_count::text FROM outbox WHERE key = '{room}'");
        self.database.text(&sql).await
    }

    pub(crate) async fn until_state(&self, room: &str, wanted: &str) {
        eventually(wanted, async || match self.state(room).await {
            Some(state) if state == wanted => Ok(()),
            state => Err(state),
        })
        .await;
    }
}

pub(crate) fn message(room: &str, text: &str) -> NewMessage {
    NewMessage {
        id: Uuid::now_v7(),
        room: room.into(),
        author: "ada".into(),
        text: text.into(),
    }
}

/// Waits that fit a test.
pub(crate) fn quick() -> OutboxSettings {
    OutboxSettings {
        interval_ms: 20,
        backoff_base_ms: 10,
        backoff_cap_ms: 50,
        ..OutboxSettings::default()
    }
}
