//! notification-service: a confirmation for every order and a receipt for every payment. What was sent stands in
//! `notifications`, under the id that the mail carries, so that sending it again after a crash can be noticed.

use postrider::consumer::{Context, Handlers};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events::{ORDER_PLACED, OrderPlaced, PAYMENT_SUCCEEDED, PaymentSucceeded};
use crate::service::Service;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let handlers = Handlers::new().on(confirm).on(receipt);
    let consumer = service
        .consumer(&[ORDER_PLACED, PAYMENT_SUCCEEDED])?
        .handle(handlers);
    Ok(consumer.run(shutdown).await?)
}

async fn confirm(ctx: &mut Context<Tx>, event: Event<OrderPlaced>) -> Result<(), HandlerError> {
    let OrderPlaced {
        order_id, user_id, ..
    } = &event.payload;
    notify(ctx, "confirmation", event.id.as_str(), order_id, user_id).await
}

async fn receipt(
    ctx: &mut Context<Tx>,
    event: Event<PaymentSucceeded>,
) -> Result<(), HandlerError> {
    let PaymentSucceeded {
        order_id, user_id, ..
    } = &event.payload;
    notify(ctx, "receipt", event.id.as_str(), order_id, user_id).await
}

/// Writes the mail down. A real service would hand it to its provider after the commit, under the same id.
async fn notify(
    ctx: &mut Context<Tx>,
    kind: &str,
    event_id: &str,
    order_id: &str,
    user_id: &str,
) -> Result<(), HandlerError> {
    let event = Uuid::parse_str(event_id).map_err(HandlerError::permanent)?;
    let order = Uuid::parse_str(order_id).map_err(HandlerError::permanent)?;
    let notification_id = format!("{kind}:{order_id}");
    let sql = "INSERT INTO notifications (notification_id, event_id, kind, order_id, user_id) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (notification_id) DO NOTHING";
    sqlx::query(sql)
        .bind(&notification_id)
        .bind(event)
        .bind(kind)
        .bind(order)
        .bind(user_id)
        .execute(&mut **ctx.tx())
        .await?;
    tracing::info!(notification_id, "sent");
    Ok(())
}
