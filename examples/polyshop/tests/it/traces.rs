//! What a collector sees of an order, and what the logs say of it.

use std::collections::BTreeSet;

use example_polyshop::events::{ORDER_COMPLETED, ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{
    ANALYTICS_SERVICE, INVENTORY_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE,
};
use postrider_testkit::collector::{CollectedSpan, Collector};
use serde_json::Value;

use crate::process::{Process, stop_all};
use crate::shop::{Placed, Shop, dead_orders, order};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SERVICES: [&str; 5] = [
    ORDER_SERVICE,
    PAYMENT_SERVICE,
    INVENTORY_SERVICE,
    NOTIFICATION_SERVICE,
    ANALYTICS_SERVICE,
];

/// How a trace comes to a span: `service: name` of each, but for the request that it began with.
fn way(spans: &[CollectedSpan], span: &CollectedSpan) -> String {
    let parent = spans
        .iter()
        .find(|other| other.span_id == span.parent_span_id);
    match parent {
        Some(parent) => format!("{} > {}: {}", way(spans, parent), span.service, span.name),
        None => span.name.clone(),
    }
}

/// Starts all services and the relay; the first is the order service.
async fn start_all(shop: &Shop) -> Vec<Process> {
    shop.stock("book", 10).await;
    let mut processes: Vec<_> = SERVICES.map(|service| shop.start(service)).into();
    processes.push(shop.start_relay());
    processes
}

/// A3-14: a trace spans the HTTP request, the publishing and the consuming, over all services.
#[tokio::test]
async fn a_trace_spans_the_request_the_publishing_and_the_consuming() {
    let collector = Collector::start().await;
    let mut shop = Shop::open().await;
    shop.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    shop.set("POSTRIDER__TELEMETRY__OTLP", collector.endpoint());
    let processes = start_all(&shop).await;
    let placed = order(&processes[0], 750, &[("traceparent", PARENT)]).await;
    shop.until_notified(&placed, 2).await;
    shop.until_published(ORDER_COMPLETED, 1).await;
    shop.until_consumed(ANALYTICS_SERVICE, ORDER_PLACED).await;
    stop_all(processes).await;

    let spans = collector.spans();
    let spans: Vec<CollectedSpan> = spans
        .into_iter()
        .filter(|span| span.trace_id == TRACE)
        .collect();
    let ways: BTreeSet<String> = spans.iter().map(|span| way(&spans, span)).collect();
    // Whichever came second has completed the order.
    let completed_by = ["payment", "inventory"].map(|first| {
        format!("POST /orders > {first}-service: consume > order-service: consume > relay: publish")
    });
    let completed = completed_by.iter().filter(|way| ways.contains(*way));
    assert_eq!(completed.count(), 1, "{ways:#?}");
    for way in [
        "POST /orders",
        "POST /orders > relay: publish",
        "POST /orders > analytics-service: consume",
        "POST /orders > notification-service: consume",
        "POST /orders > payment-service: consume",
        "POST /orders > payment-service: consume > relay: publish",
        "POST /orders > payment-service: consume > notification-service: consume",
        "POST /orders > payment-service: consume > order-service: consume",
        "POST /orders > inventory-service: consume",
        "POST /orders > inventory-service: consume > relay: publish",
        "POST /orders > inventory-service: consume > order-service: consume",
    ] {
        assert!(ways.contains(way), "{way} is not in {ways:#?}");
    }
    assert_eq!(ways.len(), 12, "{ways:#?}");
    let request = spans
        .iter()
        .find(|span| span.name == "POST /orders")
        .unwrap();
    assert_eq!(request.parent_span_id, "00f067aa0ba902b7");
}

/// A field of a log line, as the services write it or as the relay does.
fn field<'a>(line: &'a Value, services: &str, relay: &str) -> Option<&'a str> {
    line[services].as_str().or_else(|| line[relay].as_str())
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
    let processes = start_all(&shop).await;
    let paid = order(&processes[0], 750, &[("traceparent", PARENT)]).await;
    // One that the payment service cannot handle, in a trace of its own.
    let dead = order(&processes[0], 600_000, &[]).await;
    shop.until_notified(&paid, 2).await;
    shop.until_published(&dead_orders(), 1).await;
    shop.until_ended(&paid, "COMPLETED").await;
    shop.send_all_again().await;
    shop.until_published(ORDER_PLACED, 4).await;
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.until_published(&dead_orders(), 2).await;
    shop.until_all_consumed(&SERVICES[1..], ORDER_PLACED).await;
    shop.until_all_consumed(&[ORDER_SERVICE, NOTIFICATION_SERVICE], PAYMENT_SUCCEEDED)
        .await;

    let log = stop_all(processes).await;
    let events = [paid, dead];
    let about: Vec<&Value> = log.iter().filter(|line| is_about(line, &events)).collect();
    let event_id = |line: &&Value| field(line, "eventId", "event_id").map(str::to_owned);
    let trace_id = |line: &&Value| field(line, "traceId", "trace_id").map(str::to_owned);
    for line in &about {
        assert!(
            event_id(line).is_some() && trace_id(line).is_some(),
            "{line}"
        );
    }
    let lines_of = |placed: &Placed| {
        let placed = Some(placed.event.clone());
        let lines = about.iter().filter(move |line| event_id(line) == placed);
        lines.copied().collect::<Vec<&Value>>()
    };
    let traces = |placed: &Placed| -> BTreeSet<String> {
        lines_of(placed).iter().filter_map(trace_id).collect()
    };
    assert_eq!(traces(&events[0]), BTreeSet::from([TRACE.to_owned()]));
    let other = traces(&events[1]);
    assert!(other.len() == 1 && !other.contains(TRACE), "{other:?}");
    let texts = |placed: &Placed, name: &str| -> BTreeSet<String> {
        let lines = lines_of(placed);
        let texts = lines.iter().filter_map(|line| line[name].as_str());
        texts.map(str::to_owned).collect()
    };
    let said = texts(&events[1], "message");
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
    let services = texts(&events[0], "service");
    assert_eq!(services, SERVICES.map(str::to_owned).into());
}
