//! Where records go whose rows do not say it: as the config routes them now.

use postrider::core::{MessageKey, Record, Router, StoredRecord};

/// Fills in the topic of records whose row has none. It stays unknown where the record's type has no route.
pub(crate) fn fill(router: &Router, records: &mut [StoredRecord]) {
    let (_, types) = router.known();
    for record in records.iter_mut().filter(|record| record.topic.is_none()) {
        let event_type = record.event_type.as_deref();
        if types.is_empty() || event_type.is_some_and(|found| types.contains(&found)) {
            let topic = router.topic(&routable(record));
            record.topic = topic.ok().map(|topic| topic.to_string());
        }
    }
}

/// With what a topic is made of; a stored record does not have all of it.
fn routable(record: &StoredRecord) -> Record {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    Record {
        event_type: text(&record.event_type),
        aggregate_type: text(&record.aggregate_type),
        aggregate_id: text(&record.aggregate_id),
        key: record.key.as_deref().map(MessageKey::from),
        created_at: record.created_at,
        ..Record::bare(record.id.clone(), record.event_id.clone())
    }
}
