//! `POST /orders` writes an order, its items and `order.order.placed.v1` in one transaction.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use postrider::core::Event;
use postrider::stores::postgres::{Outbox, PgPool};
use serde::Deserialize;
use serde_json::json;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::events::{Item, OrderPlaced};
use crate::http::refused;
use crate::trace;

#[derive(Clone)]
pub(super) struct Shop {
    pool: PgPool,
    outbox: Arc<Outbox>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlaceOrder {
    user_id: String,
    items: Vec<Item>,
}

pub(super) async fn place_order(
    State(shop): State<Shop>,
    headers: HeaderMap,
    Json(order): Json<PlaceOrder>,
) -> Response {
    let span = trace::request("POST /orders", &headers);
    let placed = async {
        if let Some(problem) = problem(&order) {
            return refused(StatusCode::UNPROCESSABLE_ENTITY, problem);
        }
        match shop.place(order, &headers).await {
            Ok((order_id, event_id)) => {
                let placed = json!({ "orderId": order_id, "eventId": event_id });
                (StatusCode::CREATED, Json(placed)).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "order not placed");
                refused(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the order was not placed; please try again",
                )
            }
        }
    };
    placed.instrument(span).await
}

fn problem(order: &PlaceOrder) -> Option<&'static str> {
    if order.items.is_empty() {
        return Some("an order has items");
    }
    let sound = |item: &Item| item.quantity > 0 && item.price >= 0;
    if !order.items.iter().all(sound) {
        return Some("quantities are positive, and prices not negative");
    }
    let products: HashSet<&str> = order.items.iter().map(|item| &*item.product_id).collect();
    if products.len() < order.items.len() {
        return Some("a product stands in an order once, with its quantity");
    }
    let texts = products.into_iter().chain([&*order.user_id]);
    let mut texts = texts.filter(|text| text.is_empty() || text.contains('\0'));
    texts
        .next()
        .map(|_| "ids are not empty, and have no NUL in them")
}

impl Shop {
    pub(super) fn new(pool: PgPool, outbox: Outbox) -> Self {
        let outbox = Arc::new(outbox);
        Self { pool, outbox }
    }

    /// The order and its event, or neither.
    async fn place(
        &self,
        order: PlaceOrder,
        headers: &HeaderMap,
    ) -> anyhow::Result<(Uuid, String)> {
        let order_id = Uuid::now_v7();
        let placed = OrderPlaced {
            order_id: order_id.to_string(),
            total_amount: total(&order.items),
            user_id: order.user_id,
            items: order.items,
        };
        let event = describe(&placed, headers)?;
        let event_id = event.id.to_string();

        let mut tx = self.pool.begin().await?;
        sqlx::query("INSERT INTO orders (id, user_id, total_amount) VALUES ($1, $2, $3)")
            .bind(order_id)
            .bind(&placed.user_id)
            .bind(placed.total_amount)
            .execute(&mut *tx)
            .await?;
        for item in &placed.items {
            let sql = "INSERT INTO order_items (order_id, product_id, quantity, price) VALUES ($1, $2, $3, $4)";
            sqlx::query(sql)
                .bind(order_id)
                .bind(&item.product_id)
                .bind(item.quantity)
                .bind(item.price)
                .execute(&mut *tx)
                .await?;
        }
        self.outbox.emit(&mut tx, event).await?;
        tx.commit().await?;

        tracing::info!(event_id, %order_id, "order placed");
        Ok((order_id, event_id))
    }
}

/// The event, with what is known of the request. The trace is that of the current span; emit sees to it.
fn describe(placed: &OrderPlaced, headers: &HeaderMap) -> anyhow::Result<Event> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let correlation = header("x-correlation-id").unwrap_or(&placed.order_id);
    let event = Event::typed(placed)?
        .aggregate_id(&placed.order_id)
        .metadata("correlationId", correlation)
        .metadata("userId", placed.user_id.as_str());
    Ok(match header("idempotency-key") {
        Some(key) => event.metadata("idempotencyKey", key),
        None => event,
    })
}

fn total(items: &[Item]) -> i64 {
    let cents = |item: &Item| item.price.saturating_mul(item.quantity.into());
    items.iter().map(cents).fold(0, i64::saturating_add)
}
