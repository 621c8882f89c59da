//! `/metrics`, in OpenMetrics text.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::Admin;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, OPENMETRICS)],
        admin.metrics.encode(),
    )
}
