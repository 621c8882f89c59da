//! `/livez`: the process answers. `/readyz`: every outbox's database and broker do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::overview::dependency;
use super::{Admin, listed};

pub(super) async fn livez() -> Json<Value> {
    Json(json!({ "live": true }))
}

pub(super) async fn readyz(State(admin): State<Admin>) -> (StatusCode, Json<Value>) {
    let mut ready = !admin.stopping.is_cancelled();
    let outboxes: Vec<Value> = admin
        .outboxes
        .iter()
        .map(|outbox| {
            let report = outbox.health.report();
            ready &= report.is_ready();
            json!({
                "name": outbox.name(),
                "database": dependency(&report.database),
                "broker": dependency(&report.broker),
                // What is wrong with single records is no reason to send nobody here.
                "findings": listed::findings(&outbox.findings()),
                "parts": report.parts,
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
