//! Records by filter, their number, and the keys that are held up.

use axum::Json;
use postrider::core::StoredRecord;
use serde_json::{Value, json};

use super::super::ask::{Filter, Paged};
use super::super::outbox::{Managed, OfOutbox};
use super::super::refused::Refused;
use super::super::{limits, listed};
use crate::{shown, topics};

pub(super) async fn find(OfOutbox(outbox): OfOutbox, asked: Paged) -> Result<Json<Value>, Refused> {
    let found = outbox
        .store
        .find(&asked.filter, asked.from.as_ref(), asked.limit);
    let mut page = outbox.ask(found).await?;
    let mut records = listed(&outbox, &mut page.items);
    if records.len() < page.items.len() {
        // Only the store knows where the next page begins when this one is shorter.
        let limit = u32::try_from(records.len()).unwrap_or(1);
        let found = outbox.store.find(&asked.filter, asked.from.as_ref(), limit);
        page = outbox.ask(found).await?;
        records = listed(&outbox, &mut page.items);
    }
    let next = page.next.map(|cursor| cursor.0);
    Ok(Json(json!({ "records": records, "next": next })))
}

/// As many as an answer takes.
fn listed(outbox: &Managed, records: &mut [StoredRecord]) -> Vec<Value> {
    topics::fill(&outbox.router, records);
    let shown = records
        .iter()
        .map(|record| shown::record_within(record, limits::LISTED_BYTES_MAX));
    listed::fitting(shown)
}

pub(super) async fn count(
    OfOutbox(outbox): OfOutbox,
    Filter(filter): Filter,
) -> Result<Json<Value>, Refused> {
    let count = outbox.ask(outbox.store.count(&filter)).await?;
    Ok(Json(json!({ "count": count })))
}

pub(super) async fn parked(OfOutbox(outbox): OfOutbox) -> Result<Json<Value>, Refused> {
    let mut parked = outbox.ask(outbox.store.parked(limits::PARKED_MAX)).await?;
    for key in &mut parked {
        topics::fill(&outbox.router, std::slice::from_mut(&mut key.first));
    }
    let keys = parked.iter().map(|key| {
        json!({
            "key": listed::text(&key.key),
            "behind": key.behind,
            "first": shown::record_within(&key.first, limits::LISTED_BYTES_MAX),
        })
    });
    Ok(Json(json!({ "keys": listed::fitting(keys) })))
}
