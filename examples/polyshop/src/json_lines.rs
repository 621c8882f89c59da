//! Log lines as PolyShop wants them: one JSON object a line, its names in camelCase, with the fields of the spans
//! around it. So every line about an event has `eventId` and `traceId`, whoever wrote it.

use std::fmt::Debug;
use std::io::Write as _;

use postrider::core::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Writes to stderr.
pub(crate) struct JsonLines {
    service: &'static str,
}

impl JsonLines {
    pub(crate) fn new(service: &'static str) -> Self {
        Self { service }
    }
}

/// The fields of a span, or of a line.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl<S> Layer<S> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut line = Fields::default();
        let metadata = event.metadata();
        line.put("timestamp", Timestamp::now().to_string());
        line.put("level", metadata.level().as_str());
        line.put("service", self.service);
        line.put("target", metadata.target());
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(Fields(fields)) = span.extensions().get() {
                // From the inside out: the nearest span counts.
                for (name, value) in fields {
                    line.0.entry(name).or_insert_with(|| value.clone());
                }
            }
        }
        event.record(&mut line);
        let mut text = Value::Object(line.0).to_string();
        text.push('\n');
        // A closed stderr must not stop a service.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        // Such fields are for the exporter of spans.
        if !name.starts_with("otel.") {
            self.0.insert(camel_case(name), value.into());
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::camel_case;

    #[test]
    fn names_are_written_as_the_envelope_writes_them() {
        for (name, written) in [
            ("event_id", "eventId"),
            ("trace_id", "traceId"),
            ("consumer", "consumer"),
        ] {
            assert_eq!(camel_case(name), written);
        }
    }
}
