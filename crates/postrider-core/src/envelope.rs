//! The event on the wire. `packfinderz` is written at emit and stored; `polyshop` and `cloudevents`
//! are built when the record is published. Payload bytes are put in as they are, and unknown
//! metadata is absent.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Event, Record, Timestamp};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeKind {
    /// The payload's bytes as stored.
    #[default]
    None,
    /// `version, eventId, occurredAt, actor?, data`, written at emit and published as stored.
    Packfinderz,
    /// `eventId, timestamp, eventType, version, source, data, metadata`, built at publish.
    Polyshop,
    /// CloudEvents 1.0 in structured JSON, built at publish.
    Cloudevents,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    #[error("payload is not JSON: {}", crate::text::json_error(.0))]
    NotJson(#[source] serde_json::Error),
    #[error("payload is not a packfinderz envelope: {}", crate::text::json_error(.0))]
    NotPackfinderz(#[source] serde_json::Error),
    #[error("metadata is not a JSON object")]
    MetadataNotObject,
    #[error("envelope's eventId {found} is not the record's id {expected}")]
    WrongEventId { found: String, expected: String },
    #[error("envelope cannot be written: {}", crate::text::json_error(.0))]
    Unwritable(#[source] serde_json::Error),
}

/// The envelope that PackFinderz stores with its rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packfinderz<'a> {
    pub version: i32,
    #[serde(borrow)]
    pub event_id: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    pub occurred_at: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<serde_json::Value>,
    #[serde(borrow)]
    pub data: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Polyshop<'a> {
    event_id: &'a str,
    timestamp: String,
    event_type: Option<&'a str>,
    version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    data: &'a RawValue,
    metadata: &'a RawValue,
}

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    datacontenttype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

/// What is stored in the payload column for an event.
pub fn at_emit(
    kind: EnvelopeKind,
    event: &Event,
    now: Timestamp,
) -> Result<Vec<u8>, EnvelopeError> {
    if kind != EnvelopeKind::Packfinderz {
        return Ok(event.payload.clone());
    }
    let envelope = Packfinderz {
        version: event.version,
        event_id: event.id.as_str().into(),
        occurred_at: now.to_string().into(),
        actor: event.actor.clone(),
        data: json(&event.payload)?,
    };
    serde_json::to_vec(&envelope).map_err(EnvelopeError::Unwritable)
}

/// What goes to the broker for a record whose payload is `payload`.
pub fn at_publish(
    kind: EnvelopeKind,
    record: &Record,
    payload: &Bytes,
    source: Option<&str>,
) -> Result<Bytes, EnvelopeError> {
    let body = match kind {
        EnvelopeKind::None => return Ok(payload.clone()),
        EnvelopeKind::Packfinderz => {
            data(kind, record, payload)?;
            return Ok(payload.clone());
        }
        EnvelopeKind::Polyshop => written(
            record,
            &Polyshop {
                event_id: record.event_id.as_str(),
                timestamp: record.created_at.to_string(),
                event_type: record.event_type.as_deref(),
                version: record.version.unwrap_or(1),
                source,
                data: json(payload)?,
                metadata: metadata(record)?,
            },
        ),
        EnvelopeKind::Cloudevents => written(
            record,
            &CloudEvent {
                specversion: "1.0",
                id: record.event_id.as_str(),
                // Both are required by the specification, so something must stand there.
                source: source.unwrap_or("postrider"),
                r#type: record.event_type.as_deref().unwrap_or("event"),
                time: record.created_at.to_string(),
                subject: record.aggregate_id.as_deref(),
                traceparent: record.traceparent(),
                datacontenttype: "application/json",
                data: Some(json(payload)?),
            },
        ),
    };
    body.map(Bytes::from).map_err(EnvelopeError::Unwritable)
}

/// An envelope is about as large as its record. Room for it is made once: a buffer that grows by doubling holds a large
/// payload up to three times.
fn written(record: &Record, envelope: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut body = Vec::with_capacity(record.size());
    serde_json::to_writer(&mut body, envelope)?;
    Ok(body)
}

/// How large a message of this payload is at least, without making it: JSON that is put into an envelope loses the
/// blanks around it.
pub fn least(kind: EnvelopeKind, payload: &[u8]) -> usize {
    match kind {
        EnvelopeKind::None | EnvelopeKind::Packfinderz => payload.len(),
        EnvelopeKind::Polyshop | EnvelopeKind::Cloudevents => payload.trim_ascii().len(),
    }
}

/// The event's own data within a stored payload: what a payload schema speaks of.
pub fn data<'a>(
    kind: EnvelopeKind,
    record: &Record,
    payload: &'a [u8],
) -> Result<&'a [u8], EnvelopeError> {
    if kind != EnvelopeKind::Packfinderz {
        return Ok(payload);
    }
    let envelope: Packfinderz<'_> =
        serde_json::from_slice(payload).map_err(EnvelopeError::NotPackfinderz)?;
    if envelope.event_id != record.event_id.as_str() {
        return Err(EnvelopeError::WrongEventId {
            found: crate::text::bounded(&envelope.event_id, 64),
            expected: crate::text::bounded(record.event_id.as_str(), 64),
        });
    }
    Ok(envelope.data.get().as_bytes())
}

fn json(payload: &[u8]) -> Result<&RawValue, EnvelopeError> {
    serde_json::from_slice(payload).map_err(EnvelopeError::NotJson)
}

fn metadata(record: &Record) -> Result<&RawValue, EnvelopeError> {
    let text = record.metadata.as_deref().unwrap_or(b"{}");
    match serde_json::from_slice::<&RawValue>(text) {
        Ok(value) if value.get().starts_with('{') => Ok(value),
        _ => Err(EnvelopeError::MetadataNotObject),
    }
}
