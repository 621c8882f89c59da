//! The application's address, and what both modes show of themselves: metrics, liveness, readiness.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider::{Health, Metrics};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::chat::{Chat, NewMessage, Posted};

/// `POST /messages`.
pub fn chat(chat: Chat) -> Router {
    Router::new()
        .route("/messages", post(post_message))
        .with_state(chat)
}

async fn post_message(
    State(chat): State<Chat>,
    Json(message): Json<NewMessage>,
) -> (StatusCode, Json<Value>) {
    match chat.post(&message).await {
        Ok(posted) => {
            let status = match posted {
                Posted::Recorded => StatusCode::ACCEPTED,
                Posted::Known => StatusCode::OK,
            };
            (status, Json(json!({ "id": message.id, "posted": posted })))
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "a message was not recorded");
            let failure = json!({ "error": "the message was not recorded" });
            (StatusCode::SERVICE_UNAVAILABLE, Json(failure))
        }
    }
}

/// `/metrics`, `/livez` and, where an outbox module runs, `/readyz`.
pub fn operations(metrics: Metrics, health: Option<Health>) -> Router {
    let shown = Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/metrics", get(async move || metrics.encode()));
    match health {
        Some(health) => shown.route("/readyz", get(async move || readiness(&health))),
        None => shown,
    }
}

fn readiness(health: &Health) -> (StatusCode, String) {
    let report = health.report();
    let status = match report.is_ready() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let said = format!(
        "database: {:?}\nbroker: {:?}\n",
        report.database, report.broker
    );
    (status, said)
}

/// Serves until `shutdown`; requests that are under way are answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}
