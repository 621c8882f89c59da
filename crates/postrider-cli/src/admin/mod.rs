//! The admin address: liveness, readiness, metrics, the JSON API and the dashboard. Answers hold no secret, and a payload
//! only where it was asked for by somebody who may.

mod access;
mod api;
mod ask;
mod counts;
mod health;
mod history;
mod limits;
mod listed;
mod metrics;
mod outbox;
mod overview;
mod refused;
mod replays;
mod server;
mod stall;
#[cfg(test)]
mod tests;
mod ui;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use postrider::Metrics;
use postrider::core::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use ask::Body;
pub(crate) use outbox::{Managed, Parts};
pub(crate) use refused::Refused;
pub(crate) use server::serve;

use crate::config::{Role, Token};
use access::Access;

/// How long a stop waits for changes and replays that are under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// What the answers are made of. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Admin {
    outboxes: Arc<[Arc<Managed>]>,
    metrics: Metrics,
    access: Arc<Access>,
    /// Cancelled once the process has been told to stop.
    stopping: CancellationToken,
    started_at: Timestamp,
    started: Instant,
    /// The overview of a second of this process, for all streams.
    frame: Arc<Mutex<(u64, Arc<str>)>>,
    streams: Arc<Semaphore>,
    /// What goes on when its client has gone.
    tasks: TaskTracker,
    /// Resources of the demo's own, where this is one.
    demo: Option<Router>,
}

impl Admin {
    pub(crate) fn new(
        outboxes: impl IntoIterator<Item = Managed>,
        metrics: Metrics,
        tokens: &BTreeMap<String, Token>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            outboxes: outboxes.into_iter().map(Arc::new).collect(),
            metrics,
            access: Arc::new(Access::new(tokens)),
            stopping,
            started_at: Timestamp::now(),
            started: Instant::now(),
            frame: Arc::new(Mutex::new((u64::MAX, "".into()))),
            streams: Arc::new(Semaphore::new(limits::STREAMS_MAX)),
            tasks: TaskTracker::new(),
            demo: None,
        }
    }

    /// The admin address of a demo, with resources of its own. They are behind the rules of the API, and need the role
    /// `operate`.
    pub(crate) fn with_demo(self, routes: Router) -> Self {
        Self {
            demo: Some(routes),
            ..self
        }
    }

    /// What a demo adds, if this is one.
    fn demo(&self) -> Router<Self> {
        // A layer over no route is refused by axum.
        let Some(routes) = self.demo.clone() else {
            return Router::new();
        };
        routes
            .with_state(())
            .route_layer(middleware::from_fn_with_state(
                Role::Operate,
                access::require,
            ))
            .route_layer(middleware::from_fn(access::refuse_other_sites))
    }

    fn outbox(&self, name: &str) -> Result<Arc<Managed>, Refused> {
        let known = self.outboxes.iter().find(|outbox| outbox.name() == name);
        known
            .cloned()
            .ok_or_else(|| Refused::not_found("there is no such outbox"))
    }

    /// Waits for what is under way, within bounds.
    async fn close(&self) {
        self.tasks.close();
        let ended = tokio::time::timeout(CLOSE_TIMEOUT, self.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!(
                "a change or a replay was cut off; the audit table says how far it came"
            );
        }
    }
}

/// All resources. Only `/livez` and the dashboard's files are open where a token is set.
pub(crate) fn router(admin: Admin) -> Router {
    let guarded = api::router()
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .merge(admin.demo())
        .fallback(|| async { Refused::not_found("there is no such resource") })
        .method_not_allowed_fallback(not_allowed)
        .with_state(admin.clone());
    // A router of its own around them: what the inner one adds to an answer (the methods of a resource, say) would tell what
    // is there.
    let guarded = Router::new()
        .fallback_service(guarded)
        .layer(middleware::from_fn_with_state(
            admin.clone(),
            access::identify,
        ));
    ui::routes()
        .route("/livez", get(health::livez))
        .method_not_allowed_fallback(not_allowed)
        .with_state(admin.clone())
        .fallback_service(guarded)
        .layer(middleware::from_fn_with_state(
            admin,
            access::require_loopback_name,
        ))
        .layer(middleware::from_fn(limits::refuse_large_bodies))
        .layer(middleware::from_fn(secure_headers))
}

async fn not_allowed() -> Refused {
    let error = "this resource does not answer to this method; docs/admin-api.md has them all";
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

async fn secure_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(header::HeaderName, &str); 4] = [
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
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The dashboard's own files may be kept.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
