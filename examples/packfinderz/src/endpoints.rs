//! HTTP: serving until told to stop, and what orchestrators ask. `/livez`: the process answers. `/readyz`: so do the
//! database and the broker. `/metrics`: figures for Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use postrider::{Dependency, Health, Metrics};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long a stop waits for requests that are under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Watched {
    health: Health,
    metrics: Metrics,
    shutdown: CancellationToken,
}

/// The endpoints of a relay or a consumer.
pub fn watching(health: Health, metrics: Metrics, shutdown: CancellationToken) -> Router {
    Router::new()
        .route("/livez", get(async || Json(json!({ "live": true }))))
        .route("/readyz", get(readyz))
        .route(
            "/metrics",
            get(async |State(watched): State<Watched>| watched.metrics.encode()),
        )
        .with_state(Watched {
            health,
            metrics,
            shutdown,
        })
}

async fn readyz(State(watched): State<Watched>) -> (StatusCode, Json<Value>) {
    let report = watched.health.report();
    let ready = report.is_ready() && !watched.shutdown.is_cancelled();
    let body = json!({
        "ready": ready,
        "database": dependency(&report.database),
        "broker": dependency(&report.broker),
    });
    (status(ready), Json(body))
}

fn dependency(dependency: &Dependency) -> Value {
    match dependency {
        Dependency::Ready => json!({ "ready": true }),
        Dependency::NotReady { reason } => json!({ "ready": false, "reason": reason }),
    }
}

/// Of an answer to the question whether something is ready.
pub fn status(ready: bool) -> StatusCode {
    if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// Serves until `shutdown`; requests that are under way then have a few seconds to end.
pub async fn serve(
    address: SocketAddr,
    router: Router,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let give_up = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = give_up => Ok(()),
    }
}

/// Runs some work beside its endpoints. If one of the two ends, so does the other.
pub async fn beside<E>(
    work: impl Future<Output = Result<(), E>>,
    endpoints: impl Future<Output = anyhow::Result<()>>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let work = async {
        let ended = work.await;
        shutdown.cancel();
        ended
    };
    let endpoints = async {
        let ended = endpoints.await;
        shutdown.cancel();
        ended
    };
    let (worked, served) = tokio::join!(work, endpoints);
    worked?;
    served
}
