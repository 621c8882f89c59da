//! The three envelopes, read from their members. A reader says what is wrong by the names of members, never by
//! what stands in them.

use serde_json::value::RawValue;

use super::Opened;
use super::members::Members;
use super::traceparent;
use crate::EventId;
use crate::envelope::EnvelopeKind;

pub(super) const PACKFINDERZ: &[&str] = &["version", "eventId", "occurredAt", "actor", "data"];

pub(super) const POLYSHOP: &[&str] = &[
    "eventId",
    "timestamp",
    "eventType",
    "version",
    "source",
    "data",
    "metadata",
];

const CLOUDEVENT: &[&str] = &[
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "datacontenttype",
    "dataschema",
    "data",
    "data_base64",
    "traceparent",
];

pub(super) fn packfinderz(members: &Members<'_>, opened: &mut Opened) -> Result<EventId, String> {
    let id = members.text("eventId")?.into();
    opened.version = Some(members.integer("version")?);
    opened.occurred_at = Some(members.text("occurredAt")?);
    opened.actor = match members.optional("actor")? {
        Some(actor) => Some(value(actor, "actor")?),
        None => None,
    };
    take_data(members.required("data")?, opened);
    opened.envelope = EnvelopeKind::Packfinderz;
    Ok(id)
}

pub(super) fn polyshop(members: &Members<'_>, opened: &mut Opened) -> Result<EventId, String> {
    let id = members.text("eventId")?.into();
    opened.version = Some(members.integer("version")?);
    opened.occurred_at = Some(members.text("timestamp")?);
    // Written as null where the table has no event type.
    members.required("eventType")?;
    keep(&mut opened.event_type, members.optional_text("eventType")?);
    keep(&mut opened.source, members.optional_text("source")?);
    let metadata = members.object("metadata")?;
    let entry = |name| metadata.get(name).and_then(serde_json::Value::as_str);
    if opened.idempotency_key.is_none() {
        opened.idempotency_key = entry("idempotencyKey").map(Into::into);
    }
    if opened.traceparent.is_none() {
        opened.traceparent = entry("traceparent")
            .and_then(traceparent::whole)
            .or_else(|| entry("traceId").and_then(traceparent::whole))
            .map(Into::into);
    }
    opened.metadata = metadata;
    take_data(members.required("data")?, opened);
    opened.envelope = EnvelopeKind::Polyshop;
    Ok(id)
}

/// A CloudEvent in structured JSON.
pub(super) fn cloudevent(members: &Members<'_>, opened: &mut Opened) -> Result<EventId, String> {
    if members.text("specversion")? != "1.0" {
        return Err("its specversion is not 1.0".into());
    }
    let id = members.text("id")?.into();
    opened.source = Some(members.text("source")?);
    opened.event_type = Some(members.text("type")?);
    keep(&mut opened.occurred_at, members.optional_text("time")?);
    keep(&mut opened.aggregate_id, members.optional_text("subject")?);
    if opened.traceparent.is_none() {
        let parent = members.optional_text("traceparent")?;
        opened.traceparent = parent.filter(|text| traceparent::whole(text).is_some());
    }
    for (name, raw) in members.beyond(CLOUDEVENT) {
        opened
            .metadata
            .insert(name.into(), value(raw, "extension")?);
    }
    match members.optional("data")? {
        Some(data) => take_data(data, opened),
        None => opened.data.clear(),
    }
    opened.envelope = EnvelopeKind::Cloudevents;
    Ok(id)
}

/// The data as a slice of the body, which `opened` has up to now.
fn take_data(data: &RawValue, opened: &mut Opened) {
    opened.data = opened.data.slice_ref(data.get().as_bytes());
}

/// What the envelope says goes before what a header said.
fn keep(field: &mut Option<String>, found: Option<String>) {
    if found.is_some() {
        *field = found;
    }
}

fn value(raw: &RawValue, name: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(raw.get()).map_err(|_| format!("its {name} cannot be read"))
}
