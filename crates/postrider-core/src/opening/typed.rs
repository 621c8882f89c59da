//! From what was opened to the event that a handler receives.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::{OpenError, Opened, traceparent};
use crate::text::{bounded, json_error};
use crate::{Event, EventPayload, Header, Message, MessageKey};

/// The longest event type that an error quotes.
const TYPE_BYTES_MAX: usize = 100;

impl Opened {
    /// The event with its payload decoded from JSON. Errors name the type and the place, never the payload.
    ///
    /// An event type that the message does not name is empty, and a version that it does not name is 1.
    pub fn event<P: DeserializeOwned>(&self, message: &Message) -> Result<Event<P>, OpenError> {
        let event_type = self.event_type.as_deref().unwrap_or_default();
        self.decoded(message, event_type)
    }

    /// The event, if it is the one that its payload type says. Type and version are compared where the message
    /// names them; a message that does not is taken at its payload.
    pub fn typed_event<P: EventPayload>(&self, message: &Message) -> Result<Event<P>, OpenError> {
        if let Some(found) = self.event_type.as_deref()
            && found != P::EVENT_TYPE
        {
            return Err(OpenError::WrongType {
                expected: P::EVENT_TYPE,
                found: bounded(found, TYPE_BYTES_MAX),
            });
        }
        if let (Some(expected), Some(found)) = (P::VERSION, self.version)
            && expected != found
        {
            return Err(OpenError::WrongVersion {
                event_type: P::EVENT_TYPE.into(),
                expected,
                found,
            });
        }
        self.decoded(message, P::EVENT_TYPE)
    }

    /// The trace id, for logs: of the trace parent, or alone in the envelope's metadata. Alone it names no span to
    /// continue, and none is made up.
    pub fn trace_id(&self) -> Option<&str> {
        let parent = self.traceparent.as_deref();
        let alone = || self.metadata.get("traceId")?.as_str();
        parent
            .and_then(|parent| parent.split('-').nth(1))
            .or_else(|| alone().and_then(traceparent::trace_id))
    }

    fn decoded<P: DeserializeOwned>(
        &self,
        message: &Message,
        event_type: &str,
    ) -> Result<Event<P>, OpenError> {
        let payload = serde_json::from_slice(&self.data).map_err(|error| OpenError::Payload {
            event_type: bounded(event_type, TYPE_BYTES_MAX),
            reason: json_error(&error),
        })?;
        self.around(message, event_type, payload)
    }

    /// The event with its payload's bytes as they are.
    pub fn raw_event(&self, message: &Message) -> Result<Event<Bytes>, OpenError> {
        let event_type = self.event_type.as_deref().unwrap_or_default();
        self.around(message, event_type, self.data.clone())
    }

    fn around<P>(
        &self,
        message: &Message,
        event_type: &str,
        payload: P,
    ) -> Result<Event<P>, OpenError> {
        let id = self.id.clone().ok_or(OpenError::NoId)?;
        let text = |header: &Header| Some((header.name.to_string(), header.text()?.to_owned()));
        Ok(Event {
            id,
            event_type: event_type.to_owned(),
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            topic: Some(message.topic.to_string()),
            key: message
                .key
                .as_ref()
                .and_then(MessageKey::as_str)
                .map(String::from),
            idempotency_key: self.idempotency_key.clone(),
            version: self.version.unwrap_or(1),
            actor: self.actor.clone(),
            payload,
            headers: message.headers.iter().filter_map(text).collect(),
            metadata: self.metadata.clone(),
        })
    }
}
