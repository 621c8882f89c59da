mod hostile;
mod recognised;
mod refused;
mod round_trips;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::Header;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn message(body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Message {
    Message {
        topic: "orders".into(),
        key: Some("7".into()),
        ordered: false,
        payload: Some(body.into()),
        headers: headers
            .iter()
            .map(|(name, value)| Header::new(*name, *value))
            .collect(),
    }
}

fn packfinderz() -> Value {
    json!({ "version": 2, "eventId": "e-1", "occurredAt": "2026-01-01T00:00:00Z", "data": { "n": 1 } })
}

fn polyshop() -> Value {
    json!({
        "eventId": "e-1", "timestamp": "2026-01-01T00:00:00Z", "eventType": "order.placed", "version": 3,
        "source": "order-service", "data": { "n": 1 }, "metadata": { "userId": "u" },
    })
}

fn cloudevent() -> Value {
    json!({ "specversion": "1.0", "id": "e-1", "source": "/orders", "type": "order.placed", "data": { "n": 1 } })
}

fn with(mut envelope: Value, name: &str, value: Value) -> Value {
    envelope[name] = value;
    envelope
}

fn without(mut envelope: Value, name: &str) -> Value {
    envelope.as_object_mut().unwrap().remove(name);
    envelope
}
