use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::record::sample;
use crate::{EventId, Timestamp};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LicenseStatusChanged {
    license_id: String,
    store_id: String,
}

impl EventPayload for LicenseStatusChanged {
    const EVENT_TYPE: &'static str = "license_status_changed";
    const AGGREGATE_TYPE: Option<&'static str> = Some("license");
}

fn packfinderz() -> Router {
    let routes = Routes::new().typed::<LicenseStatusChanged>("pf-domain-events");
    Router::new(&Layout::preset("packfinderz").unwrap(), routes, None)
}

fn license(data: &Value) -> Record {
    let mut record = sample("store-1");
    record.event_type = Some("license_status_changed".into());
    record.aggregate_type = Some("license".into());
    let envelope = json!({ "version": 1, "eventId": record.event_id, "occurredAt": "2026-01-01T00:00:00Z", "data": data });
    record.payload = Some(envelope.to_string().into());
    record
}

#[test]
fn a_record_is_published_with_its_bytes_and_the_five_attributes() {
    let record = license(&json!({ "licenseId": "l", "storeId": "s" }));
    let message = packfinderz().message(&record).unwrap();
    assert_eq!(message.topic.as_str(), "pf-domain-events");
    assert_eq!(message.payload, record.payload);
    let names: Vec<&str> = message.headers.iter().map(|header| &*header.name).collect();
    assert_eq!(
        names,
        [
            "aggregate_id",
            "aggregate_type",
            "created_at",
            "event_id",
            "event_type"
        ]
    );
    assert!(
        message
            .headers
            .contains(&Header::new("created_at", "2025-11-15T09:30:00.123456Z"))
    );
}

#[test]
fn what_the_registry_does_not_know_is_refused() {
    let router = packfinderz();
    let good = license(&json!({ "licenseId": "l", "storeId": "s" }));
    let refuse = |change: &dyn Fn(&mut Record)| {
        let mut record = good.clone();
        change(&mut record);
        router.message(&record).unwrap_err()
    };
    assert!(matches!(
        refuse(&|r| r.event_type = Some("other".into())),
        RouteError::UnknownType { .. }
    ));
    assert!(matches!(
        refuse(&|r| r.event_type = None),
        RouteError::Missing(Role::EventType)
    ));
    assert!(matches!(
        refuse(&|r| r.aggregate_type = Some("ad".into())),
        RouteError::WrongAggregate { .. }
    ));
    assert!(matches!(
        refuse(&|r| r.aggregate_id = None),
        RouteError::Missing(Role::AggregateId)
    ));
    assert!(matches!(
        refuse(&|r| r.payload = None),
        RouteError::NullPayload
    ));
    assert!(matches!(
        refuse(&|r| r.event_id = EventId::from("another")),
        RouteError::Envelope(EnvelopeError::WrongEventId { .. })
    ));
    let null = router.message(&license(&Value::Null)).unwrap_err();
    assert!(matches!(null, RouteError::NullPayload));
    let partial = router
        .message(&license(&json!({ "licenseId": "l" })))
        .unwrap_err();
    assert!(matches!(partial, RouteError::BadPayload { .. }));
    assert!(partial.to_string().contains("storeId"), "{partial}");
}

#[test]
fn a_schema_names_the_place_and_never_the_value() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let routes = Routes::new().with("t", Route::new().schema(&schema).unwrap());
    let event = Event::raw("t", br#"{"n": "secret-value"}"#);
    let error = routes.check_event(&event).unwrap_err().to_string();
    assert!(
        error.contains("/n") && !error.contains("secret-value"),
        "{error}"
    );
    assert!(Route::new().schema(&json!({ "type": 7 })).is_err());
}

#[test]
fn polyshop_builds_its_envelope_and_invents_nothing() {
    let layout = Layout::preset("polyshop").unwrap();
    let router = Router::new(&layout, Routes::new(), Some("order-service".into()));
    let mut record = sample("7");
    let body = router.message(&record).unwrap().payload.unwrap();
    let text = std::str::from_utf8(&body).unwrap();
    // The payload's own spelling is kept.
    assert!(
        text.contains(r#""data":{"orderId": 7,  "n": 1.50e1}"#),
        "{text}"
    );
    let envelope: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(envelope["eventId"], record.event_id.as_str());
    assert_eq!(envelope["version"], 1);
    assert_eq!(envelope["source"], "order-service");
    assert_eq!(
        envelope["timestamp"],
        Timestamp::from_micros(1_763_199_000_123_456).to_string()
    );
    assert_eq!(envelope["metadata"], json!({}));

    record.metadata = Some(Bytes::from_static(br#"{"traceId": "t"}"#));
    let body = router.message(&record).unwrap().payload.unwrap();
    let envelope: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(envelope["metadata"], json!({ "traceId": "t" }));

    record.payload = Some(Bytes::from_static(b"{broken"));
    assert!(matches!(
        router.message(&record).unwrap_err(),
        RouteError::Envelope(EnvelopeError::NotJson(_))
    ));
}

#[test]
fn topics_come_from_the_layout_and_headers_from_the_row() {
    let router = Router::new(&Layout::preset("gopipe").unwrap(), Routes::new(), None);
    let mut record = sample("7");
    assert!(matches!(
        router.message(&record).unwrap_err(),
        RouteError::Missing(Role::Topic)
    ));
    record.topic = Some("order-events".into());
    record.headers = vec![Header::new("id", "stale"), Header::new("source", "shop")];
    let message = router.message(&record).unwrap();
    assert_eq!(message.topic.as_str(), "order-events");
    assert_eq!(message.headers[0], Header::new("source", "shop"));
    assert_eq!(
        message.headers[1],
        Header::new("id", record.event_id.as_str())
    );
}

#[test]
fn debezium_routes_by_aggregate_type_and_sends_tombstones() {
    let router = Router::new(&Layout::preset("debezium").unwrap(), Routes::new(), None);
    let mut record = sample("7");
    record.payload = None;
    let message = router.message(&record).unwrap();
    assert_eq!(message.topic.as_str(), "outbox.event.order");
    assert_eq!(message.payload, None);
    assert!(message.ordered);
}

#[test]
fn a_cloud_event_carries_the_required_attributes() {
    let overrides = "envelope = \"cloudevents\"".parse().unwrap();
    let layout = Layout::with_overrides("debezium", overrides).unwrap();
    let router = Router::new(&layout, Routes::new(), Some("/orders".into()));
    let record = sample("7");
    let message = router.message(&record).unwrap();
    let event: Value = serde_json::from_slice(&message.payload.unwrap()).unwrap();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["source"], "/orders");
    assert_eq!(event["type"], "order.order.placed.v1");
    assert_eq!(event["id"], record.event_id.as_str());
    assert_eq!(event["data"]["orderId"], 7);
    let content = Header::new("content-type", "application/cloudevents+json");
    assert!(message.headers.contains(&content));
}

#[test]
fn a_defect_of_the_row_is_told() {
    let router = Router::new(&Layout::preset("debezium").unwrap(), Routes::new(), None);
    let mut record = sample("7");
    record.defect = Some("headers are not a JSON object".into());
    assert!(matches!(
        router.message(&record).unwrap_err(),
        RouteError::Defect(_)
    ));
}
