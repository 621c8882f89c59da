//! inventory-service: reserves what an order asks for, or says that there is too little of it, and gives it back when
//! the order is cancelled. A movement has the order and the product as its id, so nothing is taken twice.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use axum::{Json, Router};
use postrider::consumer::middleware::CaptureOutbox;
use postrider::consumer::{Context, Handlers};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::{PgPool, Tx};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::events::{
    ORDER_CANCELLED, ORDER_PLACED, OrderCancelled, OrderPlaced, StockRejected, StockReserved,
};
use crate::http::refused;
use crate::service::{Service, database_error, uuid};
use crate::trace;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let consumer = service
        .consumer(&[ORDER_PLACED, ORDER_CANCELLED])?
        .with(CaptureOutbox::new(service.outbox()?))
        .handle(Handlers::new().on(reserve).on(give_back));
    let routes = Router::new()
        .route("/stock/{product_id}", put(put_stock))
        .with_state(service.pool.clone());
    service.run(consumer, routes, shutdown).await
}

/// All items of an order in one transaction, each reserved or rejected; or nothing, if one is of no known product.
async fn reserve(
    ctx: &mut Context<Tx>,
    event: Event<OrderPlaced>,
) -> Result<Vec<Event>, HandlerError> {
    let order = event.payload;
    let order_id = uuid(&order.order_id)?;
    let mut said = Vec::new();
    // Orders with common products lock their stock in the same order, so they do not deadlock.
    for (product_id, quantity) in quantities(&order)? {
        let movement = Movement {
            id: format!("{order_id}:{product_id}"),
            order_id,
            product_id,
            quantity,
        };
        let event = movement.make(ctx.tx()).await?;
        said.extend(event.map(|event| event.metadata("userId", order.user_id.as_str())));
    }
    Ok(said)
}

/// What an order takes of a product.
struct Movement {
    id: String,
    order_id: Uuid,
    product_id: String,
    quantity: i32,
}

impl Movement {
    /// Takes it if there is enough of it, and says whether there was. Nothing where this was done before.
    async fn make(self, tx: &mut Tx) -> Result<Option<Event>, HandlerError> {
        let Some(available) = lock_stock(tx, &self.product_id).await? else {
            tracing::warn!(product_id = self.product_id, "product not found");
            return Err(HandlerError::permanent(
                "Validation failed: product not found",
            ));
        };
        let remaining = available - i64::from(self.quantity);
        let (is_enough, order_id) = (remaining >= 0, self.order_id.to_string());
        let status = if is_enough { "RESERVED" } else { "REJECTED" };
        if !self.enter(tx, status).await? {
            return Ok(None);
        }
        tracing::info!(movement_id = self.id, status, "stock");
        let key = self.product_id.clone();
        let event = if is_enough {
            add(tx, &self.product_id, -i64::from(self.quantity)).await?;
            Event::typed(&StockReserved {
                movement_id: self.id,
                order_id,
                product_id: self.product_id,
                quantity: self.quantity,
                remaining,
            })?
        } else {
            Event::typed(&StockRejected {
                movement_id: self.id,
                order_id,
                product_id: self.product_id,
                quantity: self.quantity,
                available,
            })?
        };
        Ok(Some(event.aggregate_id(key)))
    }

    /// False where the movement was made before.
    async fn enter(&self, tx: &mut Tx, status: &str) -> Result<bool, HandlerError> {
        let sql = "INSERT INTO movements (movement_id, order_id, product_id, quantity, status) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (movement_id) DO NOTHING";
        let entered = sqlx::query(sql)
            .bind(&self.id)
            .bind(self.order_id)
            .bind(&self.product_id)
            .bind(self.quantity)
            .bind(status)
            .execute(&mut **tx)
            .await
            .map_err(database_error)?;
        Ok(entered.rows_affected() == 1)
    }
}

/// How many of each product, in the order of the products.
fn quantities(order: &OrderPlaced) -> Result<BTreeMap<String, i32>, HandlerError> {
    let mut quantities = BTreeMap::new();
    for item in &order.items {
        let known: &mut i32 = quantities.entry(item.product_id.clone()).or_default();
        let sum = known
            .checked_add(item.quantity)
            .filter(|_| item.quantity > 0);
        *known = sum.ok_or_else(|| HandlerError::permanent("Validation failed: quantity"))?;
    }
    Ok(quantities)
}

async fn lock_stock(tx: &mut Tx, product_id: &str) -> Result<Option<i64>, HandlerError> {
    let sql = "SELECT quantity FROM stock WHERE product_id = $1 FOR UPDATE";
    let stock = sqlx::query_scalar(sql).bind(product_id);
    stock
        .fetch_optional(&mut **tx)
        .await
        .map_err(database_error)
}

async fn add(tx: &mut Tx, product_id: &str, quantity: i64) -> Result<(), HandlerError> {
    let sql = "UPDATE stock SET quantity = quantity + $2 WHERE product_id = $1";
    let added = sqlx::query(sql).bind(product_id).bind(quantity);
    added.execute(&mut **tx).await.map_err(database_error)?;
    Ok(())
}

/// What is still reserved for the order; a second time that is nothing.
async fn give_back(
    ctx: &mut Context<Tx>,
    event: Event<OrderCancelled>,
) -> Result<(), HandlerError> {
    let sql = "UPDATE movements SET status = 'RELEASED' \
               WHERE order_id = $1 AND status = 'RESERVED' RETURNING product_id, quantity";
    let mut released: Vec<(String, i32)> = sqlx::query_as(sql)
        .bind(uuid(&event.payload.order_id)?)
        .fetch_all(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    released.sort();
    for (product_id, quantity) in &released {
        add(ctx.tx(), product_id, i64::from(*quantity)).await?;
    }
    tracing::info!(products = released.len(), "given back");
    Ok(())
}

#[derive(Deserialize)]
struct Stock {
    quantity: i64,
}

/// Says how many there are of a product, and by that that there is such a product.
async fn put_stock(
    State(pool): State<PgPool>,
    Path(product_id): Path<String>,
    headers: HeaderMap,
    Json(stock): Json<Stock>,
) -> Response {
    let span = trace::request("PUT /stock", &headers);
    let stored = async {
        if stock.quantity < 0 || product_id.contains('\0') {
            let problem = "a quantity is not negative, and an id has no NUL in it";
            return refused(StatusCode::UNPROCESSABLE_ENTITY, problem);
        }
        let sql = "INSERT INTO stock (product_id, quantity) VALUES ($1, $2) \
                   ON CONFLICT (product_id) DO UPDATE SET quantity = EXCLUDED.quantity";
        let stored = sqlx::query(sql).bind(&product_id).bind(stock.quantity);
        match stored.execute(&pool).await {
            Ok(_) => {
                let stored = json!({ "productId": product_id, "quantity": stock.quantity });
                (StatusCode::OK, Json(stored)).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "stock not stored");
                refused(StatusCode::SERVICE_UNAVAILABLE, "the stock was not stored")
            }
        }
    };
    stored.instrument(span).await
}
