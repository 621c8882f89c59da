//! Who did what, and when.

use axum::Json;
use serde_json::{Value, json};

use super::super::listed::text;
use super::super::outbox::OfOutbox;
use super::super::refused::Refused;
use super::super::{limits, listed};

pub(super) async fn audit(OfOutbox(outbox): OfOutbox) -> Result<Json<Value>, Refused> {
    let acts = outbox
        .ask(outbox.store.audited(None, limits::ACTS_MAX))
        .await?;
    let acts = acts.iter().map(|done| {
        let record = done.act.record.as_ref().map(ToString::to_string);
        json!({
            "at": done.at.to_string(),
            "by": text(&done.by.0),
            "action": text(&done.act.action),
            "record": record.as_deref().map(text),
            "detail": done.act.detail.as_deref().map(text),
        })
    });
    Ok(Json(json!({ "acts": listed::fitting(acts) })))
}
