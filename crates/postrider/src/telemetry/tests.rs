use postrider_testkit::collector::{CollectedSpan, Collector};
use tracing_subscriber::prelude::*;

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Runs with spans exported, and gives what the collector has after a shutdown.
async fn exported_by(protocol: Protocol, run: impl FnOnce()) -> Vec<CollectedSpan> {
    let collector = Collector::start().await;
    let otlp = Otlp::new(collector.endpoint(), "shop").protocol(protocol);
    let (layer, exporting) = otlp.start().unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
    exporting.shutdown().await;
    collector.spans()
}

fn consume() {
    let span = tracing::info_span!("consume", event = 7);
    crate::trace::set_parent(&span, &format!("00-{TRACE}-{SPAN}-01"));
    span.in_scope(|| tracing::info_span!("handle").in_scope(|| {}));
}

#[tokio::test]
async fn spans_continue_their_events_trace_over_either_protocol() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let spans = exported_by(protocol, consume).await;
        let [inner, outer] = &spans[..] else {
            panic!("{protocol:?}: {spans:?}");
        };
        assert_eq!(
            (outer.name.as_str(), inner.name.as_str()),
            ("consume", "handle")
        );
        assert_eq!(
            (outer.trace_id.as_str(), inner.trace_id.as_str()),
            (TRACE, TRACE)
        );
        assert_eq!(outer.parent_span_id, SPAN);
        assert_eq!(inner.parent_span_id, outer.span_id);
        assert_eq!(outer.service, "shop");
    }
}

#[tokio::test]
async fn what_the_exporter_itself_does_is_not_exported() {
    let spans = exported_by(Protocol::Grpc, || {
        for _ in 0..3 {
            drop(tracing::error_span!(target: "h2::proto", "theirs"));
            drop(tracing::error_span!(target: "hyper_util::client", "theirs"));
            drop(tracing::error_span!(target: "tonic::transport", "theirs"));
            drop(tracing::error_span!(target: "tower::buffer", "theirs"));
        }
        drop(tracing::debug_span!(target: "shop", "too fine"));
        drop(tracing::debug_span!(target: "postrider::publish", "ours"));
        drop(tracing::info_span!(target: "tower_http::trace", "ours"));
    })
    .await;
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["ours", "ours"]);
}

#[tokio::test]
async fn a_collector_that_is_down_holds_nobody_up() {
    // Nobody listens on the port of a server that is gone.
    let endpoint = Collector::start().await.endpoint().to_owned();
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let (layer, exporting) = Otlp::new(&endpoint, "shop")
            .protocol(protocol)
            .start()
            .unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), consume);
        let limit = SHUTDOWN_TIMEOUT * 2;
        tokio::time::timeout(limit, exporting.shutdown())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_by_name() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let started = Otlp::new("not an address", "shop")
            .protocol(protocol)
            .start::<tracing_subscriber::Registry>();
        let error = started.err().unwrap();
        assert!(error.to_string().contains("not an address"), "{error}");
    }
}

#[test]
fn grpc_without_a_runtime_is_refused() {
    let started =
        Otlp::new("http://127.0.0.1:4317", "shop").start::<tracing_subscriber::Registry>();
    assert!(started.is_err());
}
