//! A row of an outbox, as the relay sees it.

use bytes::Bytes;
use bytestring::ByteString;

use crate::{EventId, Header, MessageKey, RecordId, Timestamp};

/// One claimed row. What the layout does not map is `None`; nothing is invented. Its texts and bytes are cheap to clone.
#[derive(Debug, Clone)]
pub struct Record {
    pub id: RecordId,
    pub event_id: EventId,
    pub event_type: Option<ByteString>,
    pub aggregate_type: Option<ByteString>,
    pub aggregate_id: Option<ByteString>,
    /// What the row's topic column says; the router decides where it goes.
    pub topic: Option<ByteString>,
    pub key: Option<MessageKey>,
    pub idempotency_key: Option<ByteString>,
    pub version: Option<i32>,
    /// The payload column's bytes, `None` where it is NULL.
    pub payload: Option<Bytes>,
    /// The headers column: a JSON object as name and value pairs.
    pub headers: Vec<Header>,
    /// The metadata column: a JSON object as text.
    pub metadata: Option<Bytes>,
    /// Why this row's own columns cannot be made into a record (headers that are no JSON object,
    /// say). Such a record is dead at once; the others of its claim go on.
    pub defect: Option<String>,
    pub created_at: Timestamp,
    /// How often publishing was tried and failed.
    pub attempts: u32,
}

impl Record {
    /// Of which nothing is known but what it is called; whoever knows more says it.
    pub fn bare(id: RecordId, event_id: EventId) -> Self {
        Self {
            id,
            event_id,
            event_type: None,
            aggregate_type: None,
            aggregate_id: None,
            topic: None,
            key: None,
            idempotency_key: None,
            version: None,
            payload: None,
            headers: Vec::new(),
            metadata: None,
            defect: None,
            created_at: Timestamp::from_micros(0),
            attempts: 0,
        }
    }

    /// Bytes this record keeps in memory, about.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|h| h.name.len() + h.value.len())
            .sum();
        let texts = [
            &self.event_type,
            &self.aggregate_type,
            &self.aggregate_id,
            &self.topic,
            &self.idempotency_key,
        ];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let bytes: usize = [&self.payload, &self.metadata]
            .into_iter()
            .flatten()
            .map(Bytes::len)
            .sum();
        let key = self.key.as_ref().map_or(0, |key| key.as_bytes().len());
        let id = match &self.id {
            RecordId::Text(id) => id.len(),
            RecordId::Uuid(_) | RecordId::Int(_) => 0,
        };
        let names = id + self.event_id.as_str().len();
        std::mem::size_of::<Self>() + bytes + texts + key + names + headers
    }

    /// The W3C trace parent that was stored at emit, for logs and headers.
    pub fn traceparent(&self) -> Option<&str> {
        self.headers
            .iter()
            .find(|h| &*h.name == "traceparent")
            .and_then(Header::text)
    }
}

/// A record for unit tests.
#[cfg(test)]
pub(crate) fn sample(key: &str) -> Record {
    let id = uuid::Uuid::now_v7();
    Record {
        event_type: Some("order.order.placed.v1".into()),
        aggregate_type: Some("order".into()),
        aggregate_id: Some(key.into()),
        key: Some(key.into()),
        version: Some(1),
        payload: Some(Bytes::from_static(br#"{"orderId": 7,  "n": 1.50e1}"#)),
        created_at: Timestamp::from_micros(1_763_199_000_123_456),
        ..Record::bare(RecordId::Uuid(id), id.into())
    }
}
