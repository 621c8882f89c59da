//! What a collector sees of an order, and what the logs say of it.

use std::collections::BTreeSet;

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{ANALYTICS_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};
use postrider_testkit::collector::{CollectedSpan, Collector};
use serde_json::Value;

use crate::process::stop_all;
use crate::shop::{Placed, Shop, dead_orders, order};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SERVICES: [&str; 4] = [
    ORDER_SERVICE,
    PAYMENT_SERVICE,
    NOTIFICATION_SERVICE,
    ANALYTICS_SERVICE,
];

/// The spans of a trace, each as `service: name`, from the first one to this one.
fn way(spans: &[CollectedSpan], span: &CollectedSpan) -> Vec<String> {
    let parent = spans
        .iter()
        .find(|other| other.span_id == span.parent_span_id);
    let mut way = parent.map(|parent| way(spans, parent)).unwrap_or_default();
    way.push(format!("{}: {}", span.service, span.name));
    way
}

/// A3-14: a trace spans the HTTP request, the publishing and the consuming, over all services.
#[tokio::test]
async fn a_trace_spans_the_request_the_publishing_and_the_consuming() {
    let collector = Collector::start().await;
    let mut shop = Shop::open().await;
    shop.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let processes = SERVICES.map(|service| shop.start(service));
    let placed = order(&processes[0], 750, &[("traceparent", PARENT)]).await;
    shop.until_notified(&placed, 2).await;
    shop.until_consumed(ANALYTICS_SERVICE, ORDER_PLACED).await;
    stop_all(processes).await;

    let spans = collector.spans();
    let spans: Vec<CollectedSpan> = spans
        .into_iter()
        .filter(|span| span.trace_id == TRACE)
        .collect();
    let ways: BTreeSet<Vec<String>> = spans.iter().map(|span| way(&spans, span)).collect();
    let expected: [&[&str]; 7] = [
        &["order-service: POST /orders"],
        &["order-service: POST /orders", "order-service: publish"],
        &["order-service: POST /orders", "analytics-service: consume"],
        &[
            "order-service: POST /orders",
            "notification-service: consume",
        ],
        &["order-service: POST /orders", "payment-service: consume"],
        &[
            "order-service: POST /orders",
            "payment-service: consume",
            "payment-service: publish",
        ],
        &[
            "order-service: POST /orders",
            "payment-service: consume",
            "notification-service: consume",
        ],
    ];
    let expected: BTreeSet<Vec<String>> = expected
        .iter()
        .map(|way| way.iter().map(|name| (*name).to_owned()).collect())
        .collect();
    assert_eq!(ways, expected, "{spans:#?}");
    let request = spans
        .iter()
        .find(|span| span.name == "POST /orders")
        .unwrap();
    assert_eq!(request.parent_span_id, "00f067aa0ba902b7");
}

fn is_about(line: &Value, events: &[Placed]) -> bool {
    let text = line.to_string();
    line["target"] == "postrider::event"
        || events
            .iter()
            .any(|placed| text.contains(&placed.order) || text.contains(&placed.event))
}

/// A3-14: any log line about an event has `traceId` and `eventId`, whether it is published, handled, a duplicate or
/// dead, and with no collector too.
#[tokio::test]
async fn every_line_about_an_event_has_its_id_and_its_trace() {
    let shop = Shop::open().await;
    let processes = SERVICES.map(|service| shop.start(service));
    let paid = order(&processes[0], 750, &[("traceparent", PARENT)]).await;
    // One that the payment service cannot handle, in a trace of its own.
    let dead = order(&processes[0], 600_000, &[]).await;
    shop.until_notified(&paid, 2).await;
    shop.until_published(&dead_orders(), 1).await;
    shop.send_all_again().await;
    shop.until_published(ORDER_PLACED, 4).await;
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.until_published(&dead_orders(), 2).await;
    shop.until_all_consumed().await;

    let log = stop_all(processes).await;
    let events = [paid, dead];
    let about: Vec<&Value> = log.iter().filter(|line| is_about(line, &events)).collect();
    for line in &about {
        assert!(
            line["eventId"].is_string() && line["traceId"].is_string(),
            "{line}"
        );
    }
    let of = |placed: &Placed, field: &str| -> BTreeSet<&str> {
        let lines = about.iter().filter(|line| line["eventId"] == placed.event);
        lines.map(|line| line[field].as_str().unwrap()).collect()
    };
    assert_eq!(of(&events[0], "traceId"), BTreeSet::from([TRACE]));
    let traces = of(&events[1], "traceId");
    assert!(traces.len() == 1 && !traces.contains(TRACE), "{traces:?}");
    let said = of(&events[1], "message");
    for message in [
        "order placed",
        "published",
        "sent",
        "counted",
        "dead-lettered",
        "handled",
    ] {
        assert!(said.contains(message), "{message}: {said:?}");
    }
    assert_eq!(of(&events[0], "service"), SERVICES.into());
}
