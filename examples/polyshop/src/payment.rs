//! payment-service: pays an order that was placed, and says so with one `payment.payment.succeeded.v1`; pays it back when
//! the order is cancelled. The entry in `processed_events`, the payment and the event are one transaction.

use anyhow::Context as _;
use axum::Router;
use postrider::consumer::middleware::CaptureOutbox;
use postrider::consumer::{Context, Handlers, with_state};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events::{ORDER_CANCELLED, ORDER_PLACED, OrderCancelled, OrderPlaced, PaymentSucceeded};
use crate::service::{Service, database_error, uuid};
use crate::settings::optional;

/// No card takes more, in cents, unless `PAYMENT_LIMIT` says otherwise.
const LIMIT: i64 = 1_000_000;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let limit = match optional("PAYMENT_LIMIT") {
        Some(text) => text.parse().context("PAYMENT_LIMIT is no number")?,
        None => LIMIT,
    };
    let consumer = service
        .consumer(&[ORDER_PLACED, ORDER_CANCELLED])?
        .with(CaptureOutbox::new(service.outbox()?))
        .handle(Handlers::new().on(with_state(limit, pay)).on(pay_back));
    service.run(consumer, Router::new(), shutdown).await
}

async fn pay(
    limit: i64,
    ctx: &mut Context<Tx>,
    event: Event<OrderPlaced>,
) -> Result<Option<Event>, HandlerError> {
    let order = event.payload;
    let order_id = uuid(&order.order_id)?;
    if order.total_amount > limit {
        return Err(HandlerError::permanent(format!(
            "Validation failed: {} is over the limit of {limit}",
            order.total_amount
        )));
    }
    let payment_id = initiate(ctx.tx(), order_id, &order).await?;
    // Here a payment provider would be called, with the order's id as its idempotency key.
    if !succeed(ctx.tx(), payment_id).await? {
        return Ok(None);
    }
    tracing::info!(%order_id, %payment_id, "payment succeeded");
    let succeeded = PaymentSucceeded {
        payment_id: payment_id.to_string(),
        order_id: order.order_id,
        user_id: order.user_id,
        amount: order.total_amount,
    };
    Ok(Some(
        Event::typed(&succeeded)?
            .aggregate_id(succeeded.order_id)
            .metadata("userId", succeeded.user_id),
    ))
}

/// An order has one payment, whatever happens.
async fn initiate(tx: &mut Tx, order_id: Uuid, order: &OrderPlaced) -> Result<Uuid, HandlerError> {
    let sql = "INSERT INTO payments (id, order_id, user_id, amount, status) \
               VALUES ($1, $2, $3, $4, 'INITIATED') \
               ON CONFLICT (order_id) DO UPDATE SET order_id = EXCLUDED.order_id RETURNING id";
    let initiated = sqlx::query_scalar(sql)
        .bind(Uuid::now_v7())
        .bind(order_id)
        .bind(&order.user_id)
        .bind(order.total_amount);
    let initiated = initiated.fetch_one(&mut **tx).await;
    initiated.map_err(database_error)
}

/// From `INITIATED` to `SUCCESS`. False where it has gone that way before, or the order was cancelled first.
async fn succeed(tx: &mut Tx, payment_id: Uuid) -> Result<bool, HandlerError> {
    let sql = "UPDATE payments SET status = 'SUCCESS' WHERE id = $1 AND status = 'INITIATED'";
    let changed = sqlx::query(sql).bind(payment_id).execute(&mut **tx).await;
    Ok(changed.map_err(database_error)?.rows_affected() == 1)
}

/// What was paid is refunded. A cancellation that comes before its order leaves a payment that is never made: the two
/// are on different topics, with no order between them.
async fn pay_back(ctx: &mut Context<Tx>, event: Event<OrderCancelled>) -> Result<(), HandlerError> {
    let order = event.payload;
    let order_id = uuid(&order.order_id)?;
    let sql = "INSERT INTO payments AS paid (id, order_id, user_id, amount, status) \
               VALUES ($1, $2, $3, 0, 'CANCELLED') ON CONFLICT (order_id) DO UPDATE SET status = \
                 CASE paid.status WHEN 'SUCCESS' THEN 'REFUNDED' WHEN 'INITIATED' THEN 'CANCELLED' \
                 ELSE paid.status END RETURNING status";
    let status: String = sqlx::query_scalar(sql)
        .bind(Uuid::now_v7())
        .bind(order_id)
        .bind(&order.user_id)
        .fetch_one(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    tracing::info!(%order_id, status, "payment ended");
    Ok(())
}
