//! Records by filter, their number, and the keys that are held up.

use axum::Json;
use serde_json::{Value, json};

use super::super::ask::{Filter, Paged};
use super::super::limits;
use super::super::outbox::OfOutbox;
use super::super::refused::Refused;
use crate::{shown, topics};

pub(super) async fn find(OfOutbox(outbox): OfOutbox, asked: Paged) -> Result<Json<Value>, Refused> {
    let found = outbox
        .store
        .find(&asked.filter, asked.from.as_ref(), asked.limit);
    let mut page = outbox.ask(found).await?;
    topics::fill(&outbox.router, &mut page.items);
    let records: Vec<Value> = page.items.iter().map(shown::record).collect();
    let next = page.next.map(|cursor| cursor.0);
    Ok(Json(json!({ "records": records, "next": next })))
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
    let keys: Vec<Value> = parked
        .iter()
        .map(|key| json!({ "key": key.key, "behind": key.behind, "first": shown::record(&key.first) }))
        .collect();
    Ok(Json(json!({ "keys": keys })))
}
