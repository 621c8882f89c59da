//! `/livez`: the process answers. `/readyz`: every outbox's database and broker do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postrider::Dependency;
use serde_json::{Value, json};

use super::Admin;

pub(super) async fn livez() -> Json<Value> {
    Json(json!({ "live": true }))
}

pub(super) async fn readyz(State(admin): State<Admin>) -> (StatusCode, Json<Value>) {
    let mut ready = !admin.stopping.is_cancelled();
    let outboxes: Vec<Value> = admin
        .outboxes
        .iter()
        .map(|(name, health)| {
            let report = health.report();
            ready &= report.is_ready();
            json!({
                "name": name,
                "database": dependency(&report.database),
                "broker": dependency(&report.broker),
            })
        })
        .collect();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let stopping = admin.stopping.is_cancelled();
    (
        status,
        Json(json!({ "ready": ready, "stopping": stopping, "outboxes": outboxes })),
    )
}

fn dependency(dependency: &Dependency) -> Value {
    match dependency {
        Dependency::Ready => json!({ "ready": true }),
        Dependency::NotReady { reason } => json!({ "ready": false, "reason": reason }),
    }
}
