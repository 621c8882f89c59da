//! The domain: messages in rooms. Posting one records the message and its event in one transaction.

use postrider::Metrics;
use postrider::core::{Emitted, Event};
use postrider::stores::postgres::{Outbox, PgPool};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::OutboxModule;
use crate::outbox_module::NAME;

/// Where messages go, unless somebody says otherwise.
pub const TOPIC: &str = "talkie.messages";

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS messages (
    id uuid PRIMARY KEY, room text NOT NULL, author text NOT NULL, text text NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp())";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewMessage {
    /// Made by the client, so that a post that is repeated is known. Without one, every post is a new message.
    #[serde(default = "Uuid::now_v7")]
    pub id: Uuid,
    pub room: String,
    pub author: String,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Posted {
    Recorded,
    /// It was posted before. Nothing was written, and nothing failed.
    Known,
}

#[derive(Clone)]
pub struct Chat {
    pool: PgPool,
    outbox: Outbox,
    topic: String,
    metrics: Metrics,
}

impl Chat {
    pub fn new(pool: PgPool, topic: &str, metrics: &Metrics) -> anyhow::Result<Self> {
        Ok(Self {
            pool,
            outbox: OutboxModule::outbox()?,
            topic: topic.to_owned(),
            metrics: metrics.clone(),
        })
    }

    pub async fn init(pool: &PgPool) -> anyhow::Result<()> {
        sqlx::query(SCHEMA).execute(pool).await?;
        Ok(())
    }

    /// Message and event, or neither. Needs no broker.
    pub async fn post(&self, message: &NewMessage) -> anyhow::Result<Posted> {
        let mut tx = self.pool.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO messages (id, room, author, text) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        )
        .bind(message.id)
        .bind(&message.room)
        .bind(&message.author)
        .bind(&message.text)
        .execute(&mut *tx)
        .await?;
        let event = Event::json("", message)?
            .topic(&self.topic)
            .key(&message.room)
            .idempotency_key(message.id.to_string());
        let emitted = self.outbox.emit(&mut tx, event).await?;
        tx.commit().await?;
        self.metrics.emitted(NAME, &emitted);
        Ok(match emitted {
            Emitted::Duplicate if inserted.rows_affected() == 0 => Posted::Known,
            _ => Posted::Recorded,
        })
    }
}
