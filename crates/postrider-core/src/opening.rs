//! From message to event: the envelope opened, whichever it is. The other half of [`crate::envelope`].

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Event, EventId, Header, Message};

/// Which envelope a consumer expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opening {
    /// Told from the message itself: headers first, then the members of a JSON body.
    #[default]
    Auto,
    /// The body is the payload; what else is known stands in headers.
    Bare,
    Packfinderz,
    Polyshop,
    /// CloudEvents 1.0, structured JSON or binary (`ce_` headers).
    Cloudevents,
}

/// What a message says about its event. Only the payload is sure to be there.
#[derive(Debug, Clone)]
pub struct Opened {
    pub id: Option<EventId>,
    pub event_type: Option<String>,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub version: Option<i32>,
    /// As written by the producer.
    pub occurred_at: Option<String>,
    pub source: Option<String>,
    pub actor: Option<serde_json::Value>,
    /// W3C trace context, from a header or the envelope's metadata.
    pub traceparent: Option<String>,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The event's own data, a part of the message's bytes.
    pub data: Bytes,
}

/// Why a message is not an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("message has no event id")]
    NoId,
    #[error("message is not JSON: {reason}")]
    NotJson { reason: String },
    #[error("message is not {expected}: {reason}")]
    NotEnvelope {
        expected: &'static str,
        reason: String,
    },
    #[error("payload of {event_type} does not decode: {reason}")]
    Payload { event_type: String, reason: String },
}

/// Reads a message's envelope. Never copies the payload.
pub fn open(opening: Opening, message: &Message) -> Result<Opened, OpenError> {
    let _ = opening;
    let id = message.headers.iter().find(|h| &*h.name == "event_id");
    Ok(Opened {
        id: id.and_then(Header::text).map(Into::into),
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        idempotency_key: None,
        version: None,
        occurred_at: None,
        source: None,
        actor: None,
        traceparent: None,
        metadata: serde_json::Map::new(),
        data: message.payload.clone().unwrap_or_default(),
    })
}

impl Opened {
    /// The event with its payload decoded from JSON. Errors name the type and the place, never the payload.
    pub fn event<P: DeserializeOwned>(&self, message: &Message) -> Result<Event<P>, OpenError> {
        let event_type = self.event_type.clone().unwrap_or_default();
        let payload = serde_json::from_slice(&self.data).map_err(|error| OpenError::Payload {
            event_type: event_type.clone(),
            reason: error.to_string(),
        })?;
        let id = self.id.clone().ok_or(OpenError::NoId)?;
        let mut event = Event::raw(event_type, Vec::new())
            .with_id(id.as_str())
            .with_payload(payload);
        event.key = message.key.as_ref().map(ToString::to_string);
        event.topic = Some(message.topic.to_string());
        Ok(event)
    }
}
