//! What headers say about an event. Names are compared without regard to case, because bridges over HTTP change
//! it; CloudEvents attributes are `ce_` on Kafka and `ce-` elsewhere. Of a name that comes twice the last value
//! counts, as in Kafka's own clients. Values that are empty or not text say nothing.

use bytes::Bytes;
use serde_json::Map;

use super::{Opened, traceparent};
use crate::envelope::EnvelopeKind;
use crate::{EventId, Header};

/// What a header says the message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// A CloudEvent as a JSON body.
    Structured,
    /// A CloudEvent whose attributes are headers.
    Binary,
    /// Several CloudEvents in one body.
    Batch,
}

/// CloudEvents attributes that are facts of their own; the others are extensions.
const ATTRIBUTES: [&str; 9] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "datacontenttype",
    "dataschema",
    "traceparent",
];

#[derive(Clone, Copy)]
pub(super) struct Headers<'a>(pub(super) &'a [Header]);

impl<'a> Headers<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        self.last(|found| found.eq_ignore_ascii_case(name))
    }

    fn ce(self, attribute: &str) -> Option<&'a str> {
        self.last(|found| {
            attribute_of(found).is_some_and(|name| name.eq_ignore_ascii_case(attribute))
        })
    }

    fn last(self, is_it: impl Fn(&str) -> bool) -> Option<&'a str> {
        let named = |header: &&Header| is_it(&header.name);
        let text = self.0.iter().rev().find(named).and_then(Header::text);
        text.filter(|text| !text.is_empty())
    }

    /// The event id as a header that means nothing else has it. A plain `id` may be anybody's, so it never
    /// contradicts an envelope.
    pub(super) fn named_id(self) -> Option<&'a str> {
        self.get("event_id").or_else(|| self.ce("id"))
    }

    pub(super) fn promise(self) -> Option<Promise> {
        let content = self.get("content-type").unwrap_or_default();
        let says = |media: &str| {
            let start = content.get(..media.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(media))
        };
        if says("application/cloudevents-batch") {
            return Some(Promise::Batch);
        }
        if says("application/cloudevents") {
            return Some(Promise::Structured);
        }
        let whole = ["id", "source", "type"]
            .iter()
            .all(|name| self.ce(name).is_some());
        (whole || self.ce("specversion").is_some()).then_some(Promise::Binary)
    }

    /// Everything that headers say, with the body as data.
    pub(super) fn facts(self, body: Bytes) -> Opened {
        let own = |name| self.get(name);
        // The unprefixed names of CloudEvents, as gopipe has them, mean an event only beside an id.
        let id = own("id");
        let plain = |name| id.and_then(|_| self.get(name));
        let text = |found: Option<&str>| found.map(String::from);
        // `version` alone may be the version of anything.
        let version = own("event_id").and_then(|_| own("version"));
        Opened {
            id: self.named_id().or(id).map(EventId::from),
            event_type: text(
                own("event_type")
                    .or_else(|| self.ce("type"))
                    .or_else(|| own("eventType"))
                    .or_else(|| plain("type")),
            ),
            aggregate_type: text(own("aggregate_type")),
            aggregate_id: text(
                own("aggregate_id")
                    .or_else(|| self.ce("subject"))
                    .or_else(|| plain("subject")),
            ),
            idempotency_key: text(own("idempotency_key")),
            version: version.and_then(|version| version.parse().ok()),
            occurred_at: text(
                self.ce("time")
                    .or_else(|| plain("time"))
                    .or_else(|| own("created_at")),
            ),
            source: text(self.ce("source").or_else(|| plain("source"))),
            actor: None,
            traceparent: text(
                own("traceparent")
                    .and_then(traceparent::whole)
                    .or_else(|| self.ce("traceparent").and_then(traceparent::whole)),
            ),
            metadata: Map::new(),
            data: body,
            envelope: EnvelopeKind::None,
        }
    }

    /// A CloudEvent in binary mode: its facts are taken already, but it must be whole.
    pub(super) fn cloudevent(self, opened: &mut Opened) -> Result<EventId, String> {
        if self
            .ce("specversion")
            .is_some_and(|version| version != "1.0")
        {
            return Err("its ce_specversion is not 1.0".into());
        }
        let required = |name: &str| self.ce(name).ok_or_else(|| format!("it has no ce_{name}"));
        opened.event_type = Some(required("type")?.into());
        required("source")?;
        for header in self.0 {
            let extension = attribute_of(&header.name)
                .map(str::to_ascii_lowercase)
                .filter(|name| !ATTRIBUTES.contains(&name.as_str()));
            if let (Some(name), Some(text)) = (extension, header.text()) {
                opened.metadata.insert(name, text.into());
            }
        }
        opened.envelope = EnvelopeKind::Cloudevents;
        required("id").map(EventId::from)
    }
}

/// The CloudEvents attribute that a header stands for.
fn attribute_of(header: &str) -> Option<&str> {
    let prefix = header.get(..3)?;
    let is_ce = prefix.eq_ignore_ascii_case("ce_") || prefix.eq_ignore_ascii_case("ce-");
    is_ce.then(|| &header[3..])
}
