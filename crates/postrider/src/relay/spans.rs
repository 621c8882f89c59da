//! A span for each message that is published, in the trace of the event that it carries. Only for traces that
//! their producer samples, and only where spans are exported: without the `otlp` feature there is nothing here,
//! and without a subscriber that wants them the cost is one look per batch.

use postrider_core::fate::Outcome;
use postrider_core::{Message, Record};

/// Open spans, each with the index of its record.
#[derive(Debug, Default)]
pub(super) struct Spans(#[cfg(feature = "otlp")] Vec<(usize, tracing::Span)>);

#[cfg(not(feature = "otlp"))]
impl Spans {
    pub(super) fn open(_: Origin<'_>, _: &[Record], _: &[Option<Outcome>], _: &[Message]) -> Self {
        Self()
    }

    pub(super) fn close(self, _outcomes: &[Outcome]) {}
}

/// Who publishes, and through what.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "nothing is told"))]
pub(super) struct Origin<'a> {
    pub(super) outbox: &'a str,
    pub(super) broker: Option<&'static str>,
}

#[cfg(feature = "otlp")]
mod exported {
    use std::borrow::Cow;

    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    use postrider_core::text::{ERROR_BYTES_MAX, short};

    use super::{Message, Origin, Outcome, Record, Spans};
    use crate::lines::cut;
    use crate::trace::w3c;

    impl Spans {
        /// Opens the spans of a batch: the messages of those records that have no outcome yet.
        pub(in super::super) fn open(
            origin: Origin<'_>,
            records: &[Record],
            outcomes: &[Option<Outcome>],
            batch: &[Message],
        ) -> Self {
            if !tracing::span_enabled!(target: "postrider::publish", tracing::Level::DEBUG) {
                return Self::default();
            }
            let sent = std::iter::zip(records, outcomes)
                .enumerate()
                .filter(|(_, (_, outcome))| outcome.is_none());
            let spans = sent
                .zip(batch)
                .filter_map(|((index, (record, _)), message)| {
                    Some((index, span(origin, record, message)?))
                });
            Self(spans.collect())
        }

        /// Ends them, with the reason of those that failed.
        pub(in super::super) fn close(self, outcomes: &[Outcome]) {
            for (index, span) in self.0 {
                let failure = outcomes.get(index).and_then(|o| o.failure.as_ref());
                if let Some((_, reason)) = failure {
                    let reason = &*short(reason, ERROR_BYTES_MAX);
                    span.record("otel.status_description", reason);
                }
            }
        }
    }

    fn span(origin: Origin<'_>, record: &Record, message: &Message) -> Option<tracing::Span> {
        let parent = w3c::read(&traceparent(record)?);
        if !parent.span().span_context().is_sampled() {
            return None;
        }
        let span = tracing::debug_span!(
            target: "postrider::publish",
            parent: None,
            "publish",
            otel.kind = "producer",
            otel.status_description = tracing::field::Empty,
            messaging.system = origin.broker,
            "messaging.operation.type" = "send",
            messaging.destination.name = &*cut(message.topic.as_str()),
            messaging.message.id = &*cut(record.event_id.as_str()),
            postrider.outbox = origin.outbox,
        );
        span.set_parent(parent).is_ok().then_some(span)
    }

    /// As stored at emit: among the record's headers, or in its metadata.
    fn traceparent(record: &Record) -> Option<Cow<'_, str>> {
        #[derive(serde::Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow)]
            traceparent: Option<Cow<'a, str>>,
        }
        if let Some(parent) = record.traceparent() {
            return Some(parent.into());
        }
        let metadata: Metadata<'_> = serde_json::from_slice(record.metadata.as_deref()?).ok()?;
        metadata.traceparent
    }
}

#[cfg(all(test, feature = "otlp"))]
mod tests {
    use bytes::Bytes;
    use postrider_core::fate::Failure;
    use postrider_core::record::Record;
    use postrider_core::{Header, RecordId};
    use postrider_testkit::collector::{CollectedSpan, Collector};
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::telemetry::Otlp;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const ORIGIN: Origin<'_> = Origin {
        outbox: "orders",
        broker: Some("kafka"),
    };

    fn record(id: &str, traceparent: Option<&str>, metadata: Option<String>) -> Record {
        Record {
            payload: Some(Bytes::from_static(b"{}")),
            headers: traceparent
                .map(|parent| Header::new("traceparent", parent))
                .into_iter()
                .collect(),
            metadata: metadata.map(Bytes::from),
            ..Record::bare(RecordId::Text(id.into()), id.into())
        }
    }

    fn message() -> Message {
        Message {
            topic: "order.placed".into(),
            key: None,
            ordered: false,
            payload: None,
            headers: Vec::new(),
        }
    }

    /// What a collector gets for records of which those with an outcome are not sent.
    async fn exported(
        records: &[Record],
        known: &[Option<Outcome>],
        outcomes: &[Outcome],
    ) -> Vec<CollectedSpan> {
        let collector = Collector::start().await;
        let (layer, exporting) = Otlp::new(collector.endpoint(), "relay")
            .start()
            .expect("an address");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let sent = known.iter().filter(|outcome| outcome.is_none()).count();
            let batch = vec![message(); sent];
            Spans::open(ORIGIN, records, known, &batch).close(outcomes);
        });
        exporting.shutdown().await;
        collector.spans()
    }

    #[tokio::test]
    async fn a_published_record_has_a_span_in_its_own_trace() {
        let records = [
            record("in a header", Some(PARENT), None),
            record(
                "in metadata",
                None,
                Some(format!(r#"{{"traceparent":"{PARENT}"}}"#)),
            ),
        ];
        let published = [Outcome::PUBLISHED, Outcome::PUBLISHED];
        let spans = exported(&records, &[None, None], &published).await;
        assert_eq!(spans.len(), 2);
        for (span, record) in std::iter::zip(&spans, &records) {
            assert_eq!((span.name.as_str(), span.error.as_ref()), ("publish", None));
            assert_eq!(span.trace_id, TRACE);
            assert_eq!(span.parent_span_id, "00f067aa0ba902b7");
            let attribute = |name: &str| span.attributes[name].as_str();
            assert_eq!(attribute("messaging.system"), "kafka");
            assert_eq!(attribute("messaging.destination.name"), "order.placed");
            assert_eq!(attribute("messaging.message.id"), record.event_id.as_str());
            assert_eq!(attribute("postrider.outbox"), "orders");
        }
    }

    #[tokio::test]
    async fn a_record_without_a_sampled_trace_has_none() {
        let unsampled = PARENT.replace("-01", "-00");
        let trace_id_alone = Some(format!(r#"{{"traceId":"{TRACE}"}}"#));
        let records = [
            record("none", None, None),
            record("unsampled", Some(&unsampled), None),
            record("nonsense", Some("00-x"), None),
            record("trace id alone", None, trace_id_alone),
            record("not an object", None, Some("[1".into())),
        ];
        let published = [Outcome::PUBLISHED; 5];
        let spans = exported(&records, &[const { None }; 5], &published).await;
        assert_eq!(spans, []);
    }

    #[tokio::test]
    async fn a_failure_is_told_and_what_was_never_sent_is_not() {
        let refused = || Outcome::failed(Failure::Permanent, "not routed");
        let failed = Outcome::failed(Failure::Outage, "broker unavailable");
        let records = ["not routed", "failed"].map(|id| record(id, Some(PARENT), None));
        let known = [Some(refused()), None];
        let spans = exported(&records, &known, &[refused(), failed]).await;
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].attributes["messaging.message.id"], "failed");
        assert_eq!(spans[0].error.as_deref(), Some("broker unavailable"));
    }
}
