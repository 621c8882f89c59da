//! notification-service: a confirmation for every order and a receipt for every payment. What was sent stands in
//! `notifications`, under the id that the mail carries, so that sending it again after a crash can be noticed.

use axum::Router;
use postrider::consumer::{Context, Handlers};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use tokio_util::sync::CancellationToken;

use crate::events::{ORDER_PLACED, OrderPlaced, PAYMENT_SUCCEEDED, PaymentSucceeded};
use crate::service::{Service, database_error, uuid};

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let handlers = Handlers::new().on(confirm).on(receipt);
    let consumer = service
        .consumer(&[ORDER_PLACED, PAYMENT_SUCCEEDED])?
        .handle(handlers);
    service.run(consumer, Router::new(), shutdown).await
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

/// Writes the mail down, under the id that it would carry. The service in Python sends it, by SMTP.
async fn notify(
    ctx: &mut Context<Tx>,
    kind: &str,
    event_id: &str,
    order_id: &str,
    user_id: &str,
) -> Result<(), HandlerError> {
    let (event, order) = (uuid(event_id)?, uuid(order_id)?);
    let notification_id = format!("{kind}:{order}");
    let sql = "INSERT INTO notifications (notification_id, event_id, kind, order_id, user_id) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (notification_id) DO NOTHING";
    sqlx::query(sql)
        .bind(&notification_id)
        .bind(event)
        .bind(kind)
        .bind(order)
        .bind(user_id)
        .execute(&mut **ctx.tx())
        .await
        .map_err(database_error)?;
    tracing::info!(notification_id, "sent");
    Ok(())
}
