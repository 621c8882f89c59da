//! The dashboard's own files. They hold nothing that is secret, so they are answered without a token; what the dashboard
//! shows comes from the API, which asks for one.

use axum::Router;
use axum::response::Html;
use axum::routing::get;

use super::Admin;

const PAGE: &str =
    "<!doctype html><meta charset=utf-8><title>Postrider</title><h1>Postrider</h1>\n";

/// `GET /` and every file that it loads.
pub(crate) fn routes() -> Router<Admin> {
    Router::new().route("/", get(|| async { Html(PAGE) }))
}
