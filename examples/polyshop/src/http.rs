//! HTTP: serving until told to stop, and what every service answers. `/livez`: the process answers. `/readyz`: so do
//! its database and the broker. `/metrics`: figures for Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use postrider::stores::postgres::PgPool;
use postrider::{Dependency, Health, Metrics};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long a stop waits for requests that are under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the database has to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// What orchestrators ask of a service with a database and a consumer.
pub fn watching(pool: PgPool, health: Health, metrics: Metrics) -> Router {
    let ready = async move || {
        let broker = health.report().broker;
        let database = tokio::time::timeout(PING_TIMEOUT, sqlx::query("SELECT 1").execute(&pool));
        let database = matches!(database.await, Ok(Ok(_)));
        let broker_ready = broker == Dependency::Ready;
        let said = json!({ "database": database, "broker": dependency(&broker) });
        readiness(database && broker_ready, said)
    };
    Router::new()
        .route("/livez", get(async || Json(json!({ "live": true }))))
        .route("/readyz", get(ready))
        .route("/metrics", get(async move || metrics.encode()))
}

fn dependency(dependency: &Dependency) -> Value {
    match dependency {
        Dependency::Ready => true.into(),
        Dependency::NotReady { reason } => reason.as_str().into(),
    }
}

fn readiness(ready: bool, said: Value) -> Response {
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(said)).into_response()
}

/// An answer that says what is wrong.
pub(crate) fn refused(status: StatusCode, problem: &str) -> Response {
    (status, Json(json!({ "error": problem }))).into_response()
}

/// Serves until `shutdown`; requests that are under way then have a few seconds to end.
pub async fn serve(
    listen: SocketAddr,
    routes: Router,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
    tracing::info!(port = listener.local_addr()?.port(), "listening");
    let serving =
        axum::serve(listener, routes).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let give_up = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = give_up => Ok(()),
    }
}
