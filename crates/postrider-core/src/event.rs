//! What the application says happened.

use crate::EventId;

/// An event: to be emitted in the caller's transaction, or, with a payload of its own type, as a consumer's
/// handler receives it. To emit, only the type and the payload are needed; what a layout has no column for
/// must be left out, or the emit is refused.
#[derive(Debug, Clone)]
pub struct Event<P = Vec<u8>> {
    pub id: EventId,
    pub event_type: String,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    /// Overrides the route's topic where the layout stores a topic.
    pub topic: Option<String>,
    /// Events with the same key keep their order; the aggregate id where a layout uses that.
    pub key: Option<String>,
    pub idempotency_key: Option<String>,
    pub version: i32,
    /// Who caused it; kept in envelopes that have an actor.
    pub actor: Option<serde_json::Value>,
    pub payload: P,
    pub headers: Vec<(String, String)>,
    /// Correlation id, user id and the like, for layouts with a metadata column.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Event {
    /// An event whose payload is bytes, sent as they are.
    pub fn raw(event_type: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: EventId::generate(),
            event_type: event_type.into(),
            aggregate_type: None,
            aggregate_id: None,
            topic: None,
            key: None,
            idempotency_key: None,
            version: 1,
            actor: None,
            payload: payload.into(),
            headers: Vec::new(),
            metadata: serde_json::Map::new(),
        }
    }

    /// An event whose payload is written as JSON.
    pub fn json(
        event_type: impl Into<String>,
        payload: &impl serde::Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self::raw(event_type, serde_json::to_vec(payload)?))
    }

    /// An event of a typed payload, which names its own event and aggregate type.
    pub fn typed<P: crate::EventPayload>(payload: &P) -> Result<Self, serde_json::Error> {
        let mut event = Self::json(P::EVENT_TYPE, payload)?;
        event.aggregate_type = P::AGGREGATE_TYPE.map(Into::into);
        event.version = P::VERSION.unwrap_or(event.version);
        Ok(event)
    }
}

impl<P> Event<P> {
    /// The same event with another payload.
    pub fn with_payload<Q>(self, payload: Q) -> Event<Q> {
        Event {
            id: self.id,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            topic: self.topic,
            key: self.key,
            idempotency_key: self.idempotency_key,
            version: self.version,
            actor: self.actor,
            payload,
            headers: self.headers,
            metadata: self.metadata,
        }
    }

    #[must_use]
    pub fn with_id(mut self, id: impl Into<EventId>) -> Self {
        self.id = id.into();
        self
    }

    #[must_use]
    pub fn aggregate(mut self, aggregate_type: impl Into<String>, id: impl Into<String>) -> Self {
        self.aggregate_type = Some(aggregate_type.into());
        self.aggregate_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn aggregate_id(mut self, id: impl Into<String>) -> Self {
        self.aggregate_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    #[must_use]
    pub fn actor(mut self, actor: serde_json::Value) -> Self {
        self.actor = Some(actor);
        self
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn metadata(
        mut self,
        name: impl Into<String>,
        value: impl Into<serde_json::Value>,
    ) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }
}

/// What an emit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Emitted {
    /// The record stands in the outbox if the transaction commits.
    Recorded,
    /// A record with this id, or with this topic and idempotency key, is there already. Nothing
    /// was written and the transaction goes on.
    Duplicate,
}
