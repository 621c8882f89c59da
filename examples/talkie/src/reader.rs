//! Somebody who reads the chat from Kafka. A message that was sent twice is shown once: its id is entered in an inbox, in the
//! transaction of what is shown.

use std::sync::Arc;

use bytes::Bytes;
use postrider::consumer::middleware::{Ack, Inbox, Transaction};
use postrider::consumer::{Consumer, Context, raw};
use postrider::core::{Event, HandlerError, Subscription};
use postrider::stores::postgres::{InboxLayout, PgInbox, PgPool, PgTransactions, Tx, inbox};

use crate::chat::NewMessage;

/// What its consumer group begins with, and its entries in the inbox.
pub const NAME: &str = "talkie-reader";

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS feed (
    n bigserial PRIMARY KEY, message uuid NOT NULL, room text NOT NULL, author text NOT NULL, text text NOT NULL,
    shown_at timestamptz NOT NULL DEFAULT clock_timestamp())";

/// The reader's own tables, in its own database or beside the chat's.
pub async fn init(pool: &PgPool) -> anyhow::Result<()> {
    sqlx::query(SCHEMA).execute(pool).await?;
    inbox::init(pool, &InboxLayout::gopipe()).await?;
    Ok(())
}

pub fn reader(pool: PgPool, messages: Arc<dyn Subscription>) -> Consumer {
    Consumer::builder(NAME, messages)
        .with(Ack::default())
        .with(Transaction::new(PgTransactions::new(pool)))
        .with(Inbox::new(PgInbox::new(InboxLayout::gopipe())))
        .handle(raw(show))
}

async fn show(ctx: &mut Context<Tx>, event: Event<Bytes>) -> Result<(), HandlerError> {
    let message: NewMessage = match serde_json::from_slice(&event.payload) {
        Ok(message) => message,
        // Given back, it would come again and again, and hold up what is behind it.
        Err(error) => {
            tracing::warn!(event_id = %event.id, %error, "not a chat message, passed over");
            return Ok(());
        }
    };
    sqlx::query("INSERT INTO feed (message, room, author, text) VALUES ($1, $2, $3, $4)")
        .bind(message.id)
        .bind(&message.room)
        .bind(&message.author)
        .bind(&message.text)
        .execute(&mut **ctx.tx())
        .await?;
    println!("{} {}: {}", message.room, message.author, message.text);
    Ok(())
}
