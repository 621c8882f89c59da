//! What is no event, and how that is said.

use serde::{Deserialize, Serialize};

use super::*;
use crate::EventPayload;

#[derive(Debug, Serialize, Deserialize)]
struct Placed {
    n: u8,
}

impl EventPayload for Placed {
    const EVENT_TYPE: &'static str = "order.placed";
    const VERSION: Option<i32> = Some(3);
}

fn refusal(opening: Opening, body: &str) -> String {
    open(opening, &message(body.to_owned(), &[]))
        .unwrap_err()
        .to_string()
}

#[test]
fn another_shape_than_the_expected_one_is_named() {
    use Opening::{Cloudevents, Packfinderz, Polyshop};
    let polyshop = polyshop().to_string();
    let cases = [
        (
            Packfinderz,
            polyshop.as_str(),
            "message is not packfinderz: it has no occurredAt",
        ),
        (
            Cloudevents,
            &polyshop,
            "message is not a CloudEvent: it has no specversion",
        ),
        (Polyshop, "null", "message is not polyshop: it is null"),
        (
            Polyshop,
            "[1, 2]",
            "message is not polyshop: it is an array",
        ),
        (Polyshop, "\"x\"", "message is not polyshop: it is a string"),
        (Polyshop, "", "message is not polyshop: it is empty"),
        (
            Polyshop,
            "nul",
            "message is not JSON: it ends too early at line 1 column 3",
        ),
        (
            Polyshop,
            "secret",
            "message is not JSON: syntax error at line 1 column 1",
        ),
        (
            Packfinderz,
            "{\"eventId\": \"sec",
            "message is not JSON: it ends too early at line 1 column 16",
        ),
        (
            Packfinderz,
            "{} {}",
            "message is not JSON: syntax error at line 1 column 4",
        ),
        (
            Packfinderz,
            r#"{"eventId":"a","eventId":"b"}"#,
            "message is not packfinderz: it has eventId twice",
        ),
    ];
    for (opening, body, expected) in cases {
        assert_eq!(refusal(opening, body), expected, "{body}");
    }
    let base64 = with(cloudevent(), "data_base64", json!("AA==")).to_string();
    for opening in [Cloudevents, Opening::Auto] {
        assert!(refusal(opening, &base64).ends_with("it has data_base64"));
    }
}

#[test]
fn an_expected_envelope_lacks_no_required_member() {
    for (opening, envelope, optional) in [
        (Opening::Packfinderz, packfinderz(), ""),
        (Opening::Polyshop, polyshop(), "source"),
        (Opening::Cloudevents, cloudevent(), "data"),
    ] {
        for name in envelope.as_object().unwrap().keys() {
            let lacking = without(envelope.clone(), name).to_string();
            let opened = open(opening, &message(lacking, &[]));
            match opened {
                Ok(_) => assert_eq!(name, optional),
                Err(error) => assert!(
                    error.to_string().ends_with(&format!("no {name}")),
                    "{error}"
                ),
            }
        }
    }
}

#[test]
fn an_envelope_and_a_header_that_name_two_events_are_refused_with_both() {
    for (opening, body) in [
        (Opening::Packfinderz, packfinderz()),
        (Opening::Polyshop, polyshop()),
        (Opening::Cloudevents, cloudevent()),
        (Opening::Auto, packfinderz()),
        (Opening::Auto, polyshop()),
        (Opening::Auto, cloudevent()),
    ] {
        let other = "x".repeat(500);
        let error = open(opening, &message(body.to_string(), &[("event_id", &other)]));
        let Err(OpenError::IdMismatch { envelope, header }) = error else {
            panic!("{opening:?}: {error:?}");
        };
        assert_eq!(envelope, "e-1");
        assert!(header.starts_with("xx") && header.len() <= 64);
    }
    let binary = [
        ("ce_id", "a"),
        ("ce_type", "t"),
        ("ce_source", "s"),
        ("event_id", "b"),
    ];
    let error = open(Opening::Auto, &message("{}", &binary)).unwrap_err();
    assert!(matches!(error, OpenError::IdMismatch { .. }), "{error}");
}

#[test]
fn an_id_that_no_store_could_keep_is_refused() {
    let long = "x".repeat(256);
    for id in [long.as_str(), "a\0b", "a\nb"] {
        let error = open(Opening::Bare, &message("{}", &[("event_id", id)])).unwrap_err();
        assert!(matches!(error, OpenError::BadId { .. }), "{error}");
        assert!(error.to_string().len() < 100);
    }
}

#[test]
fn a_typed_event_is_of_its_type_and_version() {
    let typed = |body: Value, headers: &[(&str, &str)]| {
        let message = message(body.to_string(), headers);
        open(Opening::Auto, &message)
            .unwrap()
            .typed_event::<Placed>(&message)
    };
    assert_eq!(typed(polyshop(), &[]).unwrap().payload.n, 1);
    let error = typed(with(polyshop(), "eventType", json!("order.gone")), &[]).unwrap_err();
    assert_eq!(error.to_string(), "event is order.gone, not order.placed");
    let error = typed(with(polyshop(), "version", json!(4)), &[]).unwrap_err();
    assert_eq!(error.to_string(), "order.placed is of version 4, not 3");
    // What says neither is taken at its payload.
    let event = typed(json!({ "n": 5 }), &[("id", "e-1")]).unwrap();
    assert_eq!(
        (event.event_type.as_str(), event.payload.n),
        ("order.placed", 5)
    );
}

#[test]
fn a_payload_that_does_not_decode_is_named_by_place_only() {
    let decode = |body: &str| {
        let message = message(
            body.to_owned(),
            &[("event_id", "e-1"), ("event_type", "order.placed")],
        );
        open(Opening::Auto, &message)
            .unwrap()
            .event::<Placed>(&message)
            .unwrap_err()
    };
    assert_eq!(
        decode(r#"{"n": "secret"}"#).to_string(),
        "payload of order.placed does not decode: a value does not fit at line 1 column 14"
    );
    for body in [
        "",
        "secret",
        "null",
        "[\"secret\"]",
        r#"{"secret": 1}"#,
        r#"{"n": 1, "n": "secret"}"#,
    ] {
        let error = decode(body);
        assert!(matches!(error, OpenError::Payload { .. }), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn an_event_without_an_id_is_no_event() {
    let message = message(r#"{"n": 1}"#, &[]);
    let opened = open(Opening::Auto, &message).unwrap();
    assert_eq!(
        opened.event::<Placed>(&message).unwrap_err(),
        OpenError::NoId
    );
}
