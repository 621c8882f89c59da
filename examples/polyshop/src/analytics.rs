//! analytics-service: counts what is sold. It only consumes: it has `processed_events` and no outbox.

use axum::Router;
use postrider::consumer::Context;
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use tokio_util::sync::CancellationToken;

use crate::events::{ORDER_PLACED, OrderPlaced};
use crate::service::{Service, database_error, uuid};

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let consumer = service.consumer(&[ORDER_PLACED])?.handle(count);
    service.run(consumer, Router::new(), shutdown).await
}

/// No effect of this kind bears a repetition; the inbox sees to it that there is none.
async fn count(ctx: &mut Context<Tx>, event: Event<OrderPlaced>) -> Result<(), HandlerError> {
    uuid(&event.payload.order_id)?;
    let mut items = event.payload.items;
    // Orders with common products take their rows in the same order, so they do not deadlock.
    items.sort_by(|a, b| a.product_id.cmp(&b.product_id));
    for item in items {
        let sql = "INSERT INTO product_sales AS sold (product_id, quantity, revenue) \
                   VALUES ($1, $2, $3) ON CONFLICT (product_id) DO UPDATE \
                   SET quantity = sold.quantity + EXCLUDED.quantity, \
                       revenue = sold.revenue + EXCLUDED.revenue";
        let quantity = i64::from(item.quantity);
        sqlx::query(sql)
            .bind(item.product_id)
            .bind(quantity)
            .bind(quantity.saturating_mul(item.price))
            .execute(&mut **ctx.tx())
            .await
            .map_err(database_error)?;
    }
    tracing::info!("counted");
    Ok(())
}
