//! From record to message: which topic, which envelope, which headers, and whether the event is one
//! that may be sent at all. The registry of event types lives here, as data.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::envelope::{self, EnvelopeError, EnvelopeKind};
use crate::layout::{Role, Template};
use crate::{Event, Header, Layout, Message, Ordering, Record, Topic, text};

/// A payload type that knows which event it is.
pub trait EventPayload: serde::Serialize + DeserializeOwned {
    const EVENT_TYPE: &'static str;
    const AGGREGATE_TYPE: Option<&'static str> = None;
    /// The version that this type decodes; a consumer refuses others. `None` takes any.
    const VERSION: Option<i32> = None;
}

/// What is known of one event type.
#[derive(Clone, Default)]
pub struct Route {
    /// Where it goes; the layout's rule where this is not set.
    pub topic: Option<Topic>,
    pub aggregate_type: Option<String>,
    check: Option<Check>,
}

type Check = Arc<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>;

impl Route {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn topic(mut self, topic: impl Into<Topic>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    #[must_use]
    pub fn aggregate_type(mut self, aggregate_type: impl Into<String>) -> Self {
        self.aggregate_type = Some(aggregate_type.into());
        self
    }

    /// The payload must fit a JSON Schema.
    pub fn schema(mut self, schema: &serde_json::Value) -> Result<Self, RouteError> {
        let validator =
            jsonschema::validator_for(schema).map_err(|error| RouteError::BadSchema {
                reason: error.to_string(),
            })?;
        self.check = Some(Arc::new(move |payload| {
            let value: serde_json::Value =
                serde_json::from_slice(payload).map_err(|error| text::json_error(&error))?;
            // The validator's own text quotes the instance, and payloads stay out of errors.
            validator
                .validate(&value)
                .map_err(|error| match error.instance_path().as_str() {
                    "" => format!("does not fit its schema ({})", error.kind().keyword()),
                    path => format!(
                        "does not fit its schema at {path} ({})",
                        error.kind().keyword()
                    ),
                })
        }));
        Ok(self)
    }

    /// The payload must decode as `P`.
    #[must_use]
    pub fn typed<P: EventPayload>(mut self) -> Self {
        self.check = Some(Arc::new(|payload| {
            let decoded: Result<P, _> = serde_json::from_slice(payload);
            decoded.map(drop).map_err(|error| text::json_error(&error))
        }));
        self.aggregate_type = self.aggregate_type.or(P::AGGREGATE_TYPE.map(Into::into));
        self
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("topic", &self.topic)
            .field("aggregate_type", &self.aggregate_type)
            .field("checked", &self.check.is_some())
            .finish()
    }
}

/// The registry: event type → route. Empty means that payloads are opaque and every type is sent.
#[derive(Debug, Clone, Default)]
pub struct Routes(HashMap<String, Route>);

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, event_type: impl Into<String>, route: Route) -> Self {
        self.0.insert(event_type.into(), route);
        self
    }

    /// Registers a typed payload under its own event type.
    #[must_use]
    pub fn typed<P: EventPayload>(self, topic: impl Into<Topic>) -> Self {
        self.with(P::EVENT_TYPE, Route::new().topic(topic).typed::<P>())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses an event that the relay would refuse later.
    pub fn check_event(&self, event: &Event) -> Result<Option<&Route>, RouteError> {
        self.check(
            Some(&event.event_type),
            event.aggregate_type.as_deref(),
            &event.payload,
        )
    }

    fn check(
        &self,
        event_type: Option<&str>,
        aggregate_type: Option<&str>,
        data: &[u8],
    ) -> Result<Option<&Route>, RouteError> {
        if self.is_empty() {
            return Ok(None);
        }
        let event_type = event_type.ok_or(RouteError::Missing(Role::EventType))?;
        let route = self
            .0
            .get(event_type)
            .ok_or_else(|| RouteError::UnknownType {
                event_type: crate::text::bounded(event_type, 100),
            })?;
        if let Some(expected) = &route.aggregate_type
            && aggregate_type != Some(expected)
        {
            return Err(RouteError::WrongAggregate {
                event_type: event_type.into(),
                expected: expected.clone(),
                found: crate::text::bounded(aggregate_type.unwrap_or("none"), 100),
            });
        }
        if data.trim_ascii() == b"null" {
            return Err(RouteError::NullPayload);
        }
        if let Some(check) = &route.check {
            check(data).map_err(|reason| RouteError::BadPayload { reason })?;
        }
        Ok(Some(route))
    }
}

/// Makes messages of records, by layout and routes. Pure: it holds no connection and no state.
#[derive(Debug, Clone)]
pub struct Router {
    topic: Template,
    envelope: EnvelopeKind,
    tombstones: bool,
    ordered: bool,
    attributes: Vec<(Arc<str>, Role)>,
    routes: Routes,
    source: Option<String>,
    requires_aggregate_id: bool,
}

impl Router {
    pub fn new(layout: &Layout, routes: Routes, source: Option<String>) -> Self {
        Self {
            topic: layout.topic.clone(),
            envelope: layout.envelope,
            tombstones: layout.tombstones,
            ordered: layout.ordering == Ordering::Key,
            attributes: layout
                .attributes
                .iter()
                .map(|(n, role)| (n.as_str().into(), *role))
                .collect(),
            requires_aggregate_id: !routes.is_empty() && layout.columns.aggregate_id.is_some(),
            routes,
            source,
        }
    }

    /// The message for a record, or why there can be none.
    pub fn message(&self, record: &Record) -> Result<Message, RouteError> {
        if let Some(defect) = &record.defect {
            return Err(RouteError::Defect(defect.clone()));
        }
        let payload = match &record.payload {
            Some(payload) => Some(payload),
            None if self.tombstones => None,
            None => return Err(RouteError::NullPayload),
        };
        if self.requires_aggregate_id && record.aggregate_id.is_none() {
            return Err(RouteError::Missing(Role::AggregateId));
        }
        let route = self.route(record, payload.map_or(b"", |bytes| &bytes[..]))?;
        let topic = self.destination(route, record)?;
        let body = payload
            .map(|bytes| envelope::at_publish(self.envelope, record, bytes, self.source.as_deref()))
            .transpose()?;
        Ok(Message {
            topic,
            key: record.key.clone(),
            ordered: self.ordered,
            payload: body,
            headers: self.headers(record),
        })
    }

    /// How large a record's message is at least, key and body, without making it.
    pub fn least_size(&self, record: &Record) -> usize {
        let body = record.payload.as_deref();
        body.map_or(0, |payload| envelope::least(self.envelope, payload))
            + record.key.as_ref().map_or(0, |key| key.as_bytes().len())
    }

    /// Where a record's message goes. Needs no payload.
    pub fn topic(&self, record: &Record) -> Result<Topic, RouteError> {
        let event_type = record.event_type.as_deref();
        let route = event_type.and_then(|event_type| self.routes.0.get(event_type));
        self.destination(route, record)
    }

    fn destination(&self, route: Option<&Route>, record: &Record) -> Result<Topic, RouteError> {
        match route.and_then(|route| route.topic.clone()) {
            Some(topic) => Ok(topic),
            None => Ok(self.topic.fill(record).map_err(RouteError::Missing)?.into()),
        }
    }

    /// Topics that messages may go to whatever their records say, and event types that may be sent; no types where
    /// every type may.
    pub fn known(&self) -> (Vec<Topic>, Vec<&str>) {
        let routed = self.routes.0.values();
        let mut topics: Vec<Topic> = routed.filter_map(|route| route.topic.clone()).collect();
        if self.topic.roles().next().is_none() {
            topics.push(self.topic.to_string().into());
        }
        (topics, self.routes.0.keys().map(String::as_str).collect())
    }

    fn route(&self, record: &Record, payload: &[u8]) -> Result<Option<&Route>, RouteError> {
        if self.routes.is_empty() {
            return Ok(None);
        }
        let data = envelope::data(self.envelope, record, payload)?;
        self.routes.check(
            record.event_type.as_deref(),
            record.aggregate_type.as_deref(),
            data,
        )
    }

    /// The row's own headers, then the layout's attributes, which win over a header of their name.
    fn headers(&self, record: &Record) -> Vec<Header> {
        let named =
            |header: &&Header| !self.attributes.iter().any(|(name, _)| *name == header.name);
        let mut headers: Vec<Header> = record.headers.iter().filter(named).cloned().collect();
        headers.extend(self.attributes.iter().filter_map(|(name, role)| {
            role.of(record).map(|value| Header {
                name: name.clone(),
                value: value.into_bytes(),
            })
        }));
        if self.envelope == EnvelopeKind::Cloudevents {
            headers.push(Header::new("content-type", "application/cloudevents+json"));
        }
        headers
    }
}

/// Why an event may not be sent. All of these are permanent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    #[error("no route for event type {event_type}")]
    UnknownType { event_type: String },
    #[error("{event_type} belongs to aggregate type {expected}, not {found}")]
    WrongAggregate {
        event_type: String,
        expected: String,
        found: String,
    },
    #[error("payload is null")]
    NullPayload,
    #[error("payload {reason}")]
    BadPayload { reason: String },
    #[error("{0} is missing")]
    Missing(Role),
    #[error("{0}")]
    Defect(String),
    #[error("schema cannot be used: {reason}")]
    BadSchema { reason: String },
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}
