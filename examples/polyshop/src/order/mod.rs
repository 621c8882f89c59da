//! order-service: takes orders, and brings each to its end when it hears what became of its payment and its items.

mod place;
mod saga;

use axum::Router;
use axum::routing::post;
use postrider::consumer::Handlers;
use postrider::consumer::middleware::CaptureOutbox;
use tokio_util::sync::CancellationToken;

use crate::events::{PAYMENT_SUCCEEDED, STOCK_REJECTED, STOCK_RESERVED};
use crate::service::Service;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let handlers = Handlers::new()
        .on(saga::paid)
        .on(saga::reserved)
        .on(saga::rejected);
    let consumer = service
        .consumer(&[PAYMENT_SUCCEEDED, STOCK_RESERVED, STOCK_REJECTED])?
        .with(CaptureOutbox::new(service.outbox()?))
        .handle(handlers);
    let shop = place::Shop::new(service.pool.clone(), service.outbox()?);
    let routes = Router::new()
        .route("/orders", post(place::place_order))
        .with_state(shop);
    service.run(consumer, routes, shutdown).await
}
