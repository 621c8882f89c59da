//! The order service: each order and its event are one transaction.

use std::sync::Arc;

use postrider::core::{Event, EventId, EventPayload, Transactions as _};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify};

use super::database::Database;

/// What the service says has happened. The relay's route has a schema for it; see `settings.rs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OrderPlaced {
    pub(super) number: i64,
    pub(super) customer: String,
    pub(super) item: String,
    pub(super) quantity: i64,
}

impl EventPayload for OrderPlaced {
    const EVENT_TYPE: &'static str = "order.placed.v1";
}

/// What a customer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOrder {
    pub(super) customer: String,
    pub(super) item: String,
    pub(super) quantity: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct Placed {
    pub(super) order: i64,
    pub(super) event_id: EventId,
}

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Orders<D> {
    database: D,
    /// The relay runs in the same process and need not wait for its next look at the table.
    wake: Arc<Notify>,
    turn: Arc<Mutex<()>>,
}

impl<D: Database> Orders<D> {
    pub(super) fn new(database: D, wake: Arc<Notify>) -> Self {
        Self {
            database,
            wake,
            turn: Arc::default(),
        }
    }

    /// The order and its event, or neither. The service has a mistake that the demo is about: it takes orders of 0
    /// pieces.
    pub(super) async fn place(&self, order: &NewOrder) -> anyhow::Result<Placed> {
        // One at a time, so that a customer's events are committed in the order in which they were written. Several
        // processes would lock the customer's row.
        let _turn = self.turn.lock().await;
        let transactions = self.database.transactions();
        let mut tx = transactions.begin().await?;
        let quantity = order.quantity.to_string();
        let number = D::insert(
            &mut tx,
            "INSERT INTO orders (customer, item, quantity) VALUES ($1, $2, CAST($3 AS bigint)) \
             RETURNING number",
            &[&order.customer, &order.item, &quantity],
        )
        .await?;
        let event = Event::typed(&OrderPlaced {
            number,
            customer: order.customer.clone(),
            item: order.item.clone(),
            quantity: order.quantity,
        })?
        // What happens to one customer stays in order.
        .aggregate_id(&order.customer);
        let event_id = event.id.clone();
        self.database.emit(&mut tx, event).await?;
        transactions.commit(tx).await?;
        self.wake.notify_waiters();
        Ok(Placed {
            order: number,
            event_id,
        })
    }
}
