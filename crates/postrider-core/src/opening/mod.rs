//! From message to event: the envelope opened, whichever it is. The other half of [`crate::envelope`].
//!
//! What [`Opening::Auto`] goes by, in this order:
//! 1. Headers that promise CloudEvents: `content-type: application/cloudevents+json` (structured), or
//!    `ce_specversion` or all of `ce_id`, `ce_source` and `ce_type` (binary). A promise must be kept.
//! 2. A body that is a JSON object with every required member of an envelope, each of its own type:
//!    * CloudEvents: `specversion` "1.0", `id`, `source`, `type`.
//!    * `PolyShop`: `eventId`, `timestamp`, `eventType`, `version`, `data`, `metadata`.
//!    * `PackFinderz`: `version`, `eventId`, `occurredAt`, `data`.
//!
//!    The last two have names that a payload of its own may have as well. So a member that the envelope does not
//!    know makes it a payload, unless an `event_id` header repeats the envelope's `eventId`.
//! 3. Anything else is bare: not JSON, an array, a payload with an `id` or a `data` of its own.

mod envelopes;
mod headers;
mod members;
#[cfg(test)]
mod tests;
mod traceparent;
mod typed;

use bytes::Bytes;
use serde::Deserialize;

use crate::envelope::EnvelopeKind;
use crate::{EventId, Message};
use headers::{Headers, Promise};
use members::Members;

/// Which envelope a consumer expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opening {
    /// Told from the message itself: headers first, then the members of a JSON body. The module says how.
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
    /// W3C trace context, from a header or the envelope's metadata. Well formed, else it is not here.
    pub traceparent: Option<String>,
    /// The envelope's metadata, or the extension attributes of a CloudEvent.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The event's own data, a part of the message's bytes. Empty for a tombstone.
    pub data: Bytes,
    /// The envelope that the data was in.
    pub envelope: EnvelopeKind,
}

/// Why a message is not an event. All of these are permanent, bounded, and quote nothing of the payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("message has no event id")]
    NoId,
    #[error("event id {reason}")]
    BadId { reason: &'static str },
    #[error("envelope's id {envelope} is not the header's {header}")]
    IdMismatch { envelope: String, header: String },
    #[error("message is not JSON: {reason}")]
    NotJson { reason: String },
    #[error("message is not {expected}: {reason}")]
    NotEnvelope {
        expected: &'static str,
        reason: String,
    },
    #[error("event is {found}, not {expected}")]
    WrongType {
        expected: &'static str,
        found: String,
    },
    #[error("{event_type} is of version {found}, not {expected}")]
    WrongVersion {
        event_type: String,
        expected: i32,
        found: i32,
    },
    #[error("payload of {event_type} does not decode: {reason}")]
    Payload { event_type: String, reason: String },
}

/// Reads a message's envelope. Never copies the payload.
pub fn open(opening: Opening, message: &Message) -> Result<Opened, OpenError> {
    let headers = Headers(&message.headers);
    let mut opened = headers.facts(message.payload.clone().unwrap_or_default());
    match opening {
        Opening::Auto => auto(headers, &mut opened)?,
        Opening::Bare => {}
        Opening::Packfinderz => {
            expect(envelopes::packfinderz, "packfinderz", headers, &mut opened)?
        }
        Opening::Polyshop => expect(envelopes::polyshop, "polyshop", headers, &mut opened)?,
        Opening::Cloudevents => cloudevents(headers, &mut opened)?,
    }
    opened.id.as_ref().map_or(Ok(()), usable)?;
    Ok(opened)
}

/// The longest event id that is taken. Stores keep ids in an index, and indexes have limits.
const ID_BYTES_MAX: usize = 255;

/// An id that no store could keep would be tried for ever.
fn usable(id: &EventId) -> Result<(), OpenError> {
    let reason = match id.as_str() {
        text if text.len() > ID_BYTES_MAX => "is longer than 255 bytes",
        text if text.contains(char::is_control) => "has control characters",
        _ => return Ok(()),
    };
    Err(OpenError::BadId { reason })
}

/// Takes over what an envelope says, or tells why the members are not that envelope.
type Read = fn(&Members<'_>, &mut Opened) -> Result<EventId, String>;

fn expect(
    read: Read,
    expected: &'static str,
    headers: Headers<'_>,
    opened: &mut Opened,
) -> Result<(), OpenError> {
    let body = opened.data.clone();
    let members = members::read(&body, expected)?;
    let id =
        read(&members, opened).map_err(|reason| OpenError::NotEnvelope { expected, reason })?;
    has_json_data(&members, opened)?;
    agree(id, headers, opened)
}

/// Binary data within JSON would have to be decoded, and payloads are never copied. It is a CloudEvent all the
/// same, so nobody may take it for a payload.
fn has_json_data(members: &Members<'_>, opened: &Opened) -> Result<(), OpenError> {
    let is_cloudevent = opened.envelope == EnvelopeKind::Cloudevents;
    match is_cloudevent && members.required("data_base64").is_ok() {
        true => Err(OpenError::NotEnvelope {
            expected: "a CloudEvent that can be read",
            reason: "it has data_base64".into(),
        }),
        false => Ok(()),
    }
}

/// An envelope within a message whose header names another event: nobody can say which of them happened.
fn agree(id: EventId, headers: Headers<'_>, opened: &mut Opened) -> Result<(), OpenError> {
    if let Some(header) = headers.named_id().filter(|header| *header != id.as_str()) {
        return Err(OpenError::IdMismatch {
            envelope: crate::text::bounded(id.as_str(), 64),
            header: crate::text::bounded(header, 64),
        });
    }
    opened.id = Some(id);
    Ok(())
}

fn cloudevents(headers: Headers<'_>, opened: &mut Opened) -> Result<(), OpenError> {
    match headers.promise() {
        Some(Promise::Binary) => binary(headers, opened),
        Some(Promise::Batch) => Err(OpenError::NotEnvelope {
            expected: "a CloudEvent",
            reason: "it is a batch of them".into(),
        }),
        Some(Promise::Structured) | None => {
            expect(envelopes::cloudevent, "a CloudEvent", headers, opened)
        }
    }
}

fn binary(headers: Headers<'_>, opened: &mut Opened) -> Result<(), OpenError> {
    let id = headers
        .cloudevent(opened)
        .map_err(|reason| OpenError::NotEnvelope {
            expected: "a CloudEvent",
            reason,
        })?;
    agree(id, headers, opened)
}

fn auto(headers: Headers<'_>, opened: &mut Opened) -> Result<(), OpenError> {
    if headers.promise().is_some() {
        return cloudevents(headers, opened);
    }
    let body = opened.data.clone();
    let Ok(members) = members::read(&body, "an envelope") else {
        return Ok(());
    };
    let named = headers.named_id();
    for (mark, read, names) in [
        ("specversion", envelopes::cloudevent as Read, None),
        ("eventType", envelopes::polyshop, Some(envelopes::POLYSHOP)),
        (
            "occurredAt",
            envelopes::packfinderz,
            Some(envelopes::PACKFINDERZ),
        ),
    ] {
        // Most bodies are no envelope: do not copy what headers said three times to find that out.
        if members.required(mark).is_err() {
            continue;
        }
        let mut candidate = opened.clone();
        let Ok(id) = read(&members, &mut candidate) else {
            continue;
        };
        let whole = names.is_none_or(|names| members.has_only(names));
        if whole || named == Some(id.as_str()) {
            *opened = candidate;
            has_json_data(&members, opened)?;
            return agree(id, headers, opened);
        }
    }
    Ok(())
}
