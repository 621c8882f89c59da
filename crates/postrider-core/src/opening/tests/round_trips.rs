//! As our relay publishes it, so a consumer reads it: every preset there and back.

use super::*;
use crate::record::sample;
use crate::routing::{Router, Routes};
use crate::{Event, Layout, Record, Timestamp, envelope};

const NOW: Timestamp = Timestamp::from_micros(1_763_199_000_123_456);
const DATA: &str = r#"{"orderId": 7,  "n": 1.50e1}"#;

fn publish(layout: &Layout, record: &Record) -> Message {
    let source = Some("order-service".to_owned());
    Router::new(layout, Routes::new(), source)
        .message(record)
        .unwrap()
}

/// Opens a message as Auto and as what it is; both must say the same. Returns one of them.
fn opened(message: &Message, opening: Opening) -> Opened {
    let auto = open(Opening::Auto, message).unwrap();
    let told = open(opening, message).unwrap();
    assert_eq!(format!("{auto:?}"), format!("{told:?}"));
    let body = message.payload.as_ref().unwrap();
    assert!(body.as_ptr_range().contains(&told.data.as_ptr()), "copied");
    assert_eq!(told.data, DATA);
    told
}

#[test]
fn packfinderz_comes_back() {
    let layout = Layout::preset("packfinderz").unwrap();
    let mut record = sample("store-1");
    let event = Event::raw("order.order.placed.v1", DATA)
        .with_id(record.event_id.as_str())
        .version(4)
        .actor(json!({ "userId": "u" }));
    let stored = envelope::at_emit(layout.envelope, &event, NOW).unwrap();
    record.payload = Some(stored.into());
    let message = publish(&layout, &record);
    let opened = opened(&message, Opening::Packfinderz);
    assert_eq!(opened.envelope, EnvelopeKind::Packfinderz);
    assert_eq!(opened.occurred_at, Some(NOW.to_string()));

    let back = opened.event::<Value>(&message).unwrap();
    assert_eq!(back.id, record.event_id);
    assert_eq!(back.event_type, "order.order.placed.v1");
    assert_eq!(back.aggregate_type.as_deref(), Some("order"));
    assert_eq!(back.aggregate_id.as_deref(), Some("store-1"));
    assert_eq!(back.key.as_deref(), Some("store-1"));
    assert_eq!(back.topic.as_deref(), Some("pf-domain-events"));
    assert_eq!(back.version, 4);
    assert_eq!(back.actor, event.actor);
    assert_eq!(back.payload["orderId"], 7);
    assert_eq!(back.headers.len(), 5);
}

#[test]
fn talkie_comes_back() {
    let layout = Layout::preset("talkie").unwrap();
    let mut record = sample("7");
    record.topic = Some("chat.messages".into());
    record.idempotency_key = Some("order-7-placed".into());
    (record.event_type, record.aggregate_type) = (None, None);
    let message = publish(&layout, &record);
    let opened = opened(&message, Opening::Bare);
    assert_eq!(opened.id.as_ref(), Some(&record.event_id));
    assert_eq!(opened.idempotency_key.as_deref(), Some("order-7-placed"));
    assert_eq!(opened.event_type, None);
    let back = opened.event::<Value>(&message).unwrap();
    assert_eq!(back.topic.as_deref(), Some("chat.messages"));
    assert_eq!(back.idempotency_key.as_deref(), Some("order-7-placed"));
}

#[test]
fn polyshop_comes_back() {
    let layout = Layout::preset("polyshop").unwrap();
    let mut record = sample("7");
    record.version = Some(3);
    let metadata = json!({
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "traceparent": PARENT,
        "correlationId": "c", "idempotencyKey": "i", "userId": "u",
    });
    record.metadata = Some(metadata.to_string().into());
    let message = publish(&layout, &record);
    let opened = opened(&message, Opening::Polyshop);
    assert_eq!(opened.envelope, EnvelopeKind::Polyshop);
    assert_eq!(opened.source.as_deref(), Some("order-service"));
    assert_eq!(opened.occurred_at, Some(record.created_at.to_string()));
    assert_eq!(opened.traceparent.as_deref(), Some(PARENT));
    let back = opened.event::<Value>(&message).unwrap();
    assert_eq!(back.id, record.event_id);
    assert_eq!(back.event_type, "order.order.placed.v1");
    assert_eq!(back.version, 3);
    assert_eq!(back.idempotency_key.as_deref(), Some("i"));
    assert_eq!(Value::from(back.metadata), metadata);
}

#[test]
fn gopipe_comes_back() {
    let layout = Layout::preset("gopipe").unwrap();
    let mut record = sample("7");
    record.topic = Some("orders".into());
    record.event_type = Some("order.placed".into());
    record.headers = vec![
        Header::new("id", record.event_id.as_str()),
        Header::new("source", "/orders"),
        Header::new("subject", "order/7"),
        Header::new("time", "2026-01-01T00:00:00Z"),
        Header::new("traceparent", PARENT),
    ];
    let message = publish(&layout, &record);
    let opened = opened(&message, Opening::Bare);
    assert_eq!(opened.id.as_ref(), Some(&record.event_id));
    assert_eq!(opened.event_type.as_deref(), Some("order.placed"));
    assert_eq!(opened.source.as_deref(), Some("/orders"));
    assert_eq!(opened.aggregate_id.as_deref(), Some("order/7"));
    assert_eq!(opened.occurred_at.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(opened.traceparent.as_deref(), Some(PARENT));
}

#[test]
fn debezium_comes_back() {
    let layout = Layout::preset("debezium").unwrap();
    let record = sample("7");
    let message = publish(&layout, &record);
    let opened = opened(&message, Opening::Bare);
    assert_eq!(opened.id.as_ref(), Some(&record.event_id));
    assert_eq!(opened.event_type.as_deref(), Some("order.order.placed.v1"));
    let back = opened.event::<Value>(&message).unwrap();
    assert_eq!(back.key.as_deref(), Some("7"));
    assert_eq!(back.topic.as_deref(), Some("outbox.event.order"));
}

#[test]
fn cloudevents_come_back() {
    let mut layout = Layout::preset("polyshop").unwrap();
    layout.envelope = EnvelopeKind::Cloudevents;
    let mut record = sample("7");
    record.headers = vec![Header::new("traceparent", PARENT)];
    let mut message = publish(&layout, &record);
    let check = |message: &Message| {
        let opened = opened(message, Opening::Cloudevents);
        assert_eq!(opened.envelope, EnvelopeKind::Cloudevents);
        assert_eq!(opened.id.as_ref(), Some(&record.event_id));
        assert_eq!(opened.event_type.as_deref(), Some("order.order.placed.v1"));
        assert_eq!(opened.source.as_deref(), Some("order-service"));
        assert_eq!(opened.aggregate_id.as_deref(), Some("7"));
        assert_eq!(opened.occurred_at, Some(record.created_at.to_string()));
        assert_eq!(opened.traceparent.as_deref(), Some(PARENT));
    };
    check(&message);
    // From a broker that carries no headers.
    message.headers.clear();
    check(&message);
}
