//! How an order ends: completed when it is paid and all of its items are reserved, in whatever order that is heard of;
//! cancelled when an item is rejected. An order ends once, and says so with one event.

use postrider::consumer::Context;
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use uuid::Uuid;

use crate::events::{
    OrderCancelled, OrderCompleted, PaymentSucceeded, StockRejected, StockReserved,
};
use crate::service::{database_error, uuid};

pub(super) async fn paid(
    ctx: &mut Context<Tx>,
    event: Event<PaymentSucceeded>,
) -> Result<Option<Event>, HandlerError> {
    let order_id = uuid(&event.payload.order_id)?;
    lock(ctx.tx(), order_id).await?;
    let sql = "UPDATE orders SET paid = true WHERE id = $1";
    let paid = sqlx::query(sql).bind(order_id);
    paid.execute(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    complete(ctx.tx(), order_id).await
}

pub(super) async fn reserved(
    ctx: &mut Context<Tx>,
    event: Event<StockReserved>,
) -> Result<Option<Event>, HandlerError> {
    let order_id = uuid(&event.payload.order_id)?;
    lock(ctx.tx(), order_id).await?;
    let sql = "UPDATE order_items SET reserved = true WHERE order_id = $1 AND product_id = $2";
    let reserved = sqlx::query(sql)
        .bind(order_id)
        .bind(&event.payload.product_id)
        .execute(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    if reserved.rows_affected() == 0 {
        return Err(HandlerError::permanent(
            "Validation failed: the order has no such item",
        ));
    }
    complete(ctx.tx(), order_id).await
}

pub(super) async fn rejected(
    ctx: &mut Context<Tx>,
    event: Event<StockRejected>,
) -> Result<Option<Event>, HandlerError> {
    let rejected = event.payload;
    let order_id = uuid(&rejected.order_id)?;
    lock(ctx.tx(), order_id).await?;
    let sql = "UPDATE orders SET status = 'CANCELLED' WHERE id = $1 AND status = 'PLACED' \
               RETURNING user_id";
    let cancelled: Option<String> = sqlx::query_scalar(sql)
        .bind(order_id)
        .fetch_optional(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    let Some(user_id) = cancelled else {
        return Ok(None);
    };
    let reason = format!(
        "too little stock of {}: {} wanted, {} there",
        rejected.product_id, rejected.quantity, rejected.available
    );
    tracing::info!(%order_id, "order cancelled");
    let cancelled = OrderCancelled {
        order_id: rejected.order_id,
        user_id,
        reason,
    };
    Ok(Some(
        Event::typed(&cancelled)?
            .aggregate_id(cancelled.order_id)
            .metadata("userId", cancelled.user_id),
    ))
}

/// Events of one order come from several topics and are handled at the same time. The later one sees what the
/// earlier one did, or each might believe that something is still missing.
async fn lock(tx: &mut Tx, order_id: Uuid) -> Result<(), HandlerError> {
    let order = sqlx::query("SELECT FROM orders WHERE id = $1 FOR UPDATE").bind(order_id);
    match order.fetch_optional(&mut **tx).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(HandlerError::permanent(
            "Validation failed: order not found",
        )),
        Err(error) => Err(database_error(error)),
    }
}

/// Nothing while something is missing, and nothing where the order has ended before.
async fn complete(tx: &mut Tx, order_id: Uuid) -> Result<Option<Event>, HandlerError> {
    let sql = "UPDATE orders SET status = 'COMPLETED' \
               WHERE id = $1 AND status = 'PLACED' AND paid AND NOT EXISTS \
                 (SELECT FROM order_items WHERE order_id = $1 AND NOT reserved) \
               RETURNING user_id, total_amount";
    let completed: Option<(String, i64)> = sqlx::query_as(sql)
        .bind(order_id)
        .fetch_optional(&mut **tx)
        .await
        .map_err(database_error)?;
    let Some((user_id, total_amount)) = completed else {
        return Ok(None);
    };
    tracing::info!(%order_id, "order completed");
    let completed = OrderCompleted {
        order_id: order_id.to_string(),
        user_id,
        total_amount,
    };
    Ok(Some(
        Event::typed(&completed)?
            .aggregate_id(completed.order_id)
            .metadata("userId", completed.user_id),
    ))
}
