//! The business: orders that are placed. The handler knows nothing of inbox or outbox; it writes, and returns events.

use postrider::consumer::Context;
use postrider::core::{Event, EventPayload, HandlerError};
use postrider::stores::postgres::{PgPool, Tx};
use serde::{Deserialize, Serialize};

/// Where commands come from, where events go.
pub const COMMANDS: &str = "orders";
pub const EVENTS: &str = "order-events";

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, item text NOT NULL, quantity int NOT NULL)";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceOrder {
    pub item: String,
    pub quantity: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: i64,
    pub item: String,
    pub quantity: i32,
}

impl EventPayload for PlaceOrder {
    const EVENT_TYPE: &'static str = "place-order";
}

impl EventPayload for OrderPlaced {
    const EVENT_TYPE: &'static str = "order-placed";
}

/// Two processes that create a table at once collide in the catalogue, whatever `IF NOT EXISTS` says: then it is there.
pub async fn init(pool: &PgPool) -> Result<(), sqlx::Error> {
    let made = sqlx::query(SCHEMA).execute(pool).await;
    match made {
        Err(sqlx::Error::Database(error))
            if matches!(error.code().as_deref(), Some("23505" | "42P07")) =>
        {
            Ok(())
        }
        made => made.map(drop),
    }
}

pub async fn place_order(
    ctx: &mut Context<Tx>,
    command: Event<PlaceOrder>,
) -> Result<Vec<Event>, HandlerError> {
    let PlaceOrder { item, quantity } = command.payload;
    let order = save(ctx.tx(), &item, quantity).await?;
    let placed = OrderPlaced {
        order,
        item,
        quantity,
    };
    Ok(vec![Event::typed(&placed)?])
}

async fn save(tx: &mut Tx, item: &str, quantity: i32) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("INSERT INTO orders (item, quantity) VALUES ($1, $2) RETURNING id")
        .bind(item)
        .bind(quantity)
        .fetch_one(&mut **tx)
        .await
}
