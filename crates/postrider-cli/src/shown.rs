//! A record as JSON, wherever it is printed or answered.

use std::borrow::Cow;

use postrider::core::text::short;
use postrider::core::{StoredRecord, Timestamp};
use serde_json::{Value, json};

/// With its texts as they are.
pub(crate) fn record(record: &StoredRecord) -> Value {
    record_within(record, usize::MAX)
}

/// With texts that take at most so many bytes each as JSON; what is longer is cut and ends in `…`.
pub(crate) fn record_within(record: &StoredRecord, bytes_max: usize) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let text = |text| cut(text, bytes_max);
    json!({
        "id": short(&record.id.to_string(), bytes_max),
        "event_id": short(record.event_id.as_str(), bytes_max),
        "event_type": text(&record.event_type),
        "aggregate_type": text(&record.aggregate_type),
        "aggregate_id": text(&record.aggregate_id),
        "key": text(&record.key),
        "topic": text(&record.topic),
        "state": record.state.as_str(),
        "attempts": record.attempts,
        "error": text(&record.error),
        "created_at": record.created_at.to_string(),
        "published_at": time(record.published_at),
        "retry_at": time(record.retry_at),
        "payload_bytes": record.payload_bytes,
    })
}

fn cut(text: &Option<String>, bytes_max: usize) -> Option<Cow<'_, str>> {
    text.as_deref().map(|text| short(text, bytes_max))
}
