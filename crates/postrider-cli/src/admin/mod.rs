//! The admin address: liveness, readiness, metrics, the dashboard. Answers hold no payload and no secret.

mod auth;
mod health;
mod limits;
mod metrics;
mod server;
#[cfg(test)]
mod tests;
mod ui;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use postrider::Health;
use postrider::Metrics;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use server::serve;

use crate::config::Secret;

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) outboxes: Arc<[(String, Health)]>,
    pub(crate) metrics: Metrics,
    pub(crate) token: Option<Secret>,
    /// Cancelled once the process has been told to stop.
    pub(crate) stopping: CancellationToken,
}

/// All resources. Only `/livez` and the dashboard's files are open where a token is set.
pub(crate) fn router(admin: Admin) -> Router {
    Router::new()
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such resource") })
        .method_not_allowed_fallback(|| async {
            problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "this resource only answers GET",
            )
        })
        .layer(middleware::from_fn_with_state(
            admin.clone(),
            auth::require_token,
        ))
        .merge(ui::routes())
        .route("/livez", get(health::livez))
        .layer(middleware::from_fn(limits::refuse_large_bodies))
        .layer(middleware::from_fn(secure_headers))
        .with_state(admin)
}

fn problem(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}

async fn secure_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(header::HeaderName, &str); 5] = [
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        // Only the dashboard's files say something of their own: that they may be kept.
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}
