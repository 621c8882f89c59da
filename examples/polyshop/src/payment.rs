//! payment-service: pays an order that was placed, and says so with one `payment.payment.succeeded.v1`. The entry in
//! `processed_events`, the payment and the event are one transaction.

use std::sync::Arc;

use anyhow::Context as _;
use postrider::consumer::middleware::CaptureOutbox;
use postrider::consumer::{Context, with_state};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events::{ORDER_PLACED, OrderPlaced, PaymentSucceeded};
use crate::service::{Service, run_both};
use crate::settings::optional;

/// No card takes more, in cents, unless `PAYMENT_LIMIT` says otherwise.
const LIMIT: i64 = 1_000_000;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let limit = match optional("PAYMENT_LIMIT") {
        Some(text) => text.parse().context("PAYMENT_LIMIT is no number")?,
        None => LIMIT,
    };
    // The commit of a payment wakes the relay.
    let wake = Arc::new(Notify::new());
    let consumer = service
        .consumer(&[ORDER_PLACED])?
        .with(CaptureOutbox::new(service.outbox()).wake(wake.clone()))
        .handle(with_state(limit, pay));
    let relay = service.relay(wake)?.run(shutdown.clone());
    run_both(&shutdown, consumer.run(shutdown.clone()), relay).await
}

async fn pay(
    limit: i64,
    ctx: &mut Context<Tx>,
    event: Event<OrderPlaced>,
) -> Result<Option<Event>, HandlerError> {
    let order = event.payload;
    if order.total_amount > limit {
        return Err(HandlerError::permanent(format!(
            "Validation failed: {} is over the limit of {limit}",
            order.total_amount
        )));
    }
    let order_id = Uuid::parse_str(&order.order_id).map_err(HandlerError::permanent)?;
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
        .bind(order.total_amount)
        .fetch_one(&mut **tx)
        .await?;
    Ok(initiated)
}

/// From `INITIATED` to `SUCCESS`. False where it has gone that way before.
async fn succeed(tx: &mut Tx, payment_id: Uuid) -> Result<bool, HandlerError> {
    let sql = "UPDATE payments SET status = 'SUCCESS' WHERE id = $1 AND status = 'INITIATED'";
    let changed = sqlx::query(sql).bind(payment_id).execute(&mut **tx).await?;
    Ok(changed.rows_affected() == 1)
}
