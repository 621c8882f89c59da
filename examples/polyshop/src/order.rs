//! order-service: `POST /orders` writes an order, its items and `order.order.placed.v1` in one transaction. A relay
//! in the same process carries the events to Kafka.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use postrider::core::Event;
use postrider::stores::postgres::{Outbox, PgPool};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::events::{Item, OrderPlaced};
use crate::service::{Service, run_both};
use crate::trace;

#[derive(Clone)]
struct Shop {
    pool: PgPool,
    outbox: Arc<Outbox>,
    relay: Arc<Notify>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlaceOrder {
    user_id: String,
    items: Vec<Item>,
}

/// Serves on `listen` until it is told to stop.
pub async fn run(
    service: Service,
    listen: SocketAddr,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let wake = Arc::new(Notify::new());
    let shop = Shop {
        pool: service.pool.clone(),
        outbox: Arc::new(service.outbox()),
        relay: wake.clone(),
    };
    let routes = Router::new()
        .route("/orders", post(place_order))
        .with_state(shop);
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("orders cannot be taken at {listen}"))?;
    tracing::info!(port = listener.local_addr()?.port(), "listening");
    let serve =
        axum::serve(listener, routes).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let relay = service.relay(wake)?.run(shutdown.clone());
    run_both(&shutdown, serve.into_future(), relay).await
}

async fn place_order(
    State(shop): State<Shop>,
    headers: HeaderMap,
    Json(order): Json<PlaceOrder>,
) -> Response {
    let span = trace::request("POST /orders", &headers);
    let placed = async {
        if let Some(problem) = problem(&order) {
            return (
                StatusCode::UNPROCESSABLE_ENTITY,
                Json(json!({ "error": problem })),
            )
                .into_response();
        }
        match shop.place(order, &headers).await {
            Ok((order_id, event_id)) => {
                let placed = json!({ "orderId": order_id, "eventId": event_id });
                (StatusCode::CREATED, Json(placed)).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "order not placed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
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
    (!order.items.iter().all(sound)).then_some("quantities are positive, and prices not negative")
}

impl Shop {
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

        self.relay.notify_one();
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
