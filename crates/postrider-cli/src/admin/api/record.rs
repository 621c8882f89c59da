//! One record and its history.

use axum::Json;
use postrider::core::operate::{RecordFilter, StoredRecord};
use postrider::core::{RecordId, StoreError};
use serde_json::{Value, json};

use super::super::outbox::{Managed, OfRecord};
use super::super::refused::Refused;
use super::super::{history, limits, listed};
use crate::{shown, topics};

pub(super) async fn record(OfRecord(outbox, id): OfRecord) -> Result<Json<Value>, Refused> {
    let record = stored(&outbox, id).await?;
    let acts = outbox.store.audited(Some(&record.id), limits::ACTS_MAX);
    let acts = async {
        match acts.await {
            // A table that nobody made has nothing to tell; `GET …/audit` says how to make it.
            Err(StoreError::Refused { .. } | StoreError::Mismatch(_)) => Ok(Vec::new()),
            acts => acts,
        }
    };
    let acts = outbox.ask(acts).await?;
    let failures = outbox.monitor.failures(&record.id);
    // The latest steps, where there are more than an answer takes.
    let mut history = history::of(&record, failures, acts);
    history.reverse();
    let mut history = listed::fitting(history.iter().map(|step| json!(step)));
    history.reverse();
    let record = shown::record_within(&record, limits::SINGLE_BYTES_MAX);
    Ok(Json(json!({ "record": record, "history": history })))
}

pub(super) async fn stored(outbox: &Managed, id: RecordId) -> Result<StoredRecord, Refused> {
    let filter = RecordFilter {
        ids: vec![id],
        ..RecordFilter::default()
    };
    let mut found = outbox.ask(outbox.store.find(&filter, None, 1)).await?;
    topics::fill(&outbox.router, &mut found.items);
    found.items.into_iter().next().ok_or_else(|| {
        Refused::not_found("there is no such record; it may have been discarded or cleaned up")
    })
}
