//! Who did what, and when.

use axum::Json;
use serde_json::{Value, json};

use super::super::limits;
use super::super::outbox::OfOutbox;
use super::super::refused::Refused;

pub(super) async fn audit(OfOutbox(outbox): OfOutbox) -> Result<Json<Value>, Refused> {
    let acts = outbox
        .ask(outbox.store.audited(None, limits::ACTS_MAX))
        .await?;
    let acts: Vec<Value> = acts
        .iter()
        .map(|done| {
            json!({
                "at": done.at.to_string(),
                "by": done.by.0,
                "action": done.act.action,
                "record": done.act.record.as_ref().map(ToString::to_string),
                "detail": done.act.detail,
            })
        })
        .collect();
    Ok(Json(json!({ "acts": acts })))
}
