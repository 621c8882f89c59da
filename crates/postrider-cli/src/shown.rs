//! A record as JSON, wherever it is printed or answered.

use postrider::core::{StoredRecord, Timestamp};
use serde_json::{Value, json};

pub(crate) fn record(record: &StoredRecord) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    json!({
        "id": record.id.to_string(),
        "event_id": record.event_id,
        "event_type": record.event_type,
        "aggregate_type": record.aggregate_type,
        "aggregate_id": record.aggregate_id,
        "key": record.key,
        "topic": record.topic,
        "state": record.state.as_str(),
        "attempts": record.attempts,
        "error": record.error,
        "created_at": record.created_at.to_string(),
        "published_at": time(record.published_at),
        "retry_at": time(record.retry_at),
        "payload_bytes": record.payload_bytes,
    })
}
