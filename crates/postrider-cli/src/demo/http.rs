//! The sample service's own resources, under `/demo/` of the admin address and behind its rules.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider::core::Topic;
use serde::Deserialize;
use serde_json::{Value, json};

use super::database::Database;
use super::orders::{NewOrder, Orders, Placed};
use super::window::{KEPT_MAX, Shown, Window};
use crate::admin::{Body, Refused};

const NAME_CHARS_MAX: usize = 64;
const QUANTITY_MAX: i64 = 1_000;
const LAST: usize = 10;

#[derive(Clone)]
struct Service<D> {
    orders: Orders<D>,
    window: Window,
}

pub(super) fn routes<D: Database>(orders: Orders<D>, window: Window) -> Router {
    Router::new()
        .route("/demo/orders", post(place::<D>))
        .route("/demo/topics", get(topics::<D>))
        .route("/demo/topics/{topic}", get(topic::<D>))
        .with_state(Service { orders, window })
}

async fn place<D: Database>(
    State(service): State<Service<D>>,
    Body(order): Body<NewOrder>,
) -> Result<(StatusCode, Json<Placed>), Refused> {
    check(&order)?;
    // To its end, also where the client goes away in the middle.
    let placed = tokio::spawn(async move { service.orders.place(&order).await });
    let placed = placed.await.map_err(anyhow::Error::from).flatten();
    let placed = placed.map_err(|error| {
        Refused::unavailable(format!("the order was not placed: {error:#}; try again"))
    })?;
    Ok((StatusCode::CREATED, Json(placed)))
}

/// Of the quantity only what is absurd: see [`Orders::place`].
fn check(order: &NewOrder) -> Result<(), Refused> {
    let refused = |error: String| Err(Refused::bad(error));
    for (name, value) in [("customer", &order.customer), ("item", &order.item)] {
        let chars = value.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX || value.chars().any(char::is_control) {
            return refused(format!(
                "{name} has 1 to {NAME_CHARS_MAX} printable characters"
            ));
        }
    }
    if !(0..=QUANTITY_MAX).contains(&order.quantity) {
        return refused(format!(
            "quantity is 0 to {QUANTITY_MAX}; 0 is what the demo is about"
        ));
    }
    Ok(())
}

async fn topics<D: Database>(State(service): State<Service<D>>) -> Json<Value> {
    let topics: Vec<&str> = service.window.topics().map(Topic::as_str).collect();
    Json(json!({ "topics": topics }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    last: Option<usize>,
}

async fn topic<D: Database>(
    State(service): State<Service<D>>,
    Path(topic): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Shown>, Refused> {
    let Query(asked) = asked.map_err(|bad| Refused::bad(bad.body_text()))?;
    let last = asked.last.unwrap_or(LAST);
    if !(1..=KEPT_MAX).contains(&last) {
        let error = format!("last is 1 to {KEPT_MAX}");
        return Err(Refused::bad(error));
    }
    let shown = service.window.show(&topic, last);
    shown
        .map(Json)
        .ok_or_else(|| Refused::not_found("there is no such topic; GET /demo/topics lists them"))
}
