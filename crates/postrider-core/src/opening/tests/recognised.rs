//! What Auto takes for an envelope, and what it must not.

use super::*;

fn kind(body: &Value, headers: &[(&str, &str)]) -> EnvelopeKind {
    open(Opening::Auto, &message(body.to_string(), headers))
        .unwrap()
        .envelope
}

#[test]
fn every_envelope_is_recognised_by_its_members() {
    assert_eq!(kind(&packfinderz(), &[]), EnvelopeKind::Packfinderz);
    assert_eq!(kind(&polyshop(), &[]), EnvelopeKind::Polyshop);
    assert_eq!(kind(&cloudevent(), &[]), EnvelopeKind::Cloudevents);
    let no_source = without(polyshop(), "source");
    assert_eq!(kind(&no_source, &[]), EnvelopeKind::Polyshop);
    let no_type = with(polyshop(), "eventType", Value::Null);
    assert_eq!(kind(&no_type, &[]), EnvelopeKind::Polyshop);
    let actor = with(packfinderz(), "actor", json!({ "userId": "u" }));
    assert_eq!(kind(&actor, &[]), EnvelopeKind::Packfinderz);
}

#[test]
fn a_payload_with_some_members_of_an_envelope_is_bare() {
    let payloads = [
        json!({ "id": "e-1", "data": { "n": 1 } }),
        json!({ "id": "e-1", "type": "circle", "source": "/a", "data": 1 }),
        json!({ "eventId": "e-1", "data": { "n": 1 }, "metadata": {} }),
        json!({ "eventId": "e-1", "version": 1, "data": { "n": 1 } }),
        with(cloudevent(), "specversion", json!("0.3")),
        with(cloudevent(), "specversion", json!(1.0)),
    ];
    for payload in payloads {
        let text = payload.to_string();
        let opened = open(Opening::Auto, &message(text.clone(), &[])).unwrap();
        assert_eq!(opened.envelope, EnvelopeKind::None, "{text}");
        assert_eq!(opened.data, text);
        assert_eq!(opened.id, None);
    }
}

#[test]
fn an_envelope_that_lacks_any_required_member_is_bare() {
    for (envelope, optional) in [
        (packfinderz(), ""),
        (polyshop(), "source"),
        (cloudevent(), "data"),
    ] {
        for name in envelope.as_object().unwrap().keys() {
            let expected = name != optional;
            let lacking = without(envelope.clone(), name);
            assert_eq!(
                kind(&lacking, &[]) == EnvelopeKind::None,
                expected,
                "{name}"
            );
        }
    }
}

#[test]
fn a_member_of_the_wrong_type_makes_it_bare() {
    let wrong = [
        with(packfinderz(), "version", json!("2")),
        with(packfinderz(), "version", json!(2.5)),
        with(packfinderz(), "eventId", json!(17)),
        with(packfinderz(), "eventId", json!("")),
        with(packfinderz(), "occurredAt", json!(1_700_000_000)),
        with(polyshop(), "metadata", json!([])),
        with(polyshop(), "metadata", Value::Null),
        with(polyshop(), "timestamp", json!({})),
        with(cloudevent(), "id", json!(17)),
    ];
    for body in wrong {
        assert_eq!(kind(&body, &[]), EnvelopeKind::None, "{body}");
    }
}

/// A concert has an `eventId`, a `version` and a date too.
#[test]
fn an_unknown_member_makes_it_a_payload_unless_a_header_repeats_the_id() {
    for envelope in [packfinderz(), polyshop()] {
        let concert = with(envelope, "venue", json!("hall"));
        assert_eq!(kind(&concert, &[]), EnvelopeKind::None);
        assert_eq!(kind(&concert, &[("event_id", "other")]), EnvelopeKind::None);
        assert_eq!(kind(&concert, &[("id", "e-1")]), EnvelopeKind::None);
        assert_ne!(kind(&concert, &[("event_id", "e-1")]), EnvelopeKind::None);
    }
}

#[test]
fn what_is_not_an_object_is_bare_whatever_it_is() {
    for body in [
        "",
        "null",
        "[1]",
        "17",
        "plain text",
        "{\"eventId\":",
        "\u{feff}{}",
    ] {
        let opened = open(Opening::Auto, &message(body, &[("event_id", "e-1")])).unwrap();
        assert_eq!(opened.envelope, EnvelopeKind::None);
        assert_eq!(opened.data, body);
        assert_eq!(opened.id.unwrap().as_str(), "e-1");
    }
    let tombstone = Message {
        payload: None,
        ..message("", &[("id", "e-1")])
    };
    let opened = open(Opening::Auto, &tombstone).unwrap();
    assert!(opened.data.is_empty());
}

#[test]
fn what_a_header_promises_must_be_kept() {
    let structured = [(
        "Content-Type",
        "application/cloudevents+json; charset=utf-8",
    )];
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let binary = [("ce_specversion", "1.0"), ("ce_id", "e-1")];
    for headers in [&structured[..], &batch, &binary] {
        let error = open(Opening::Auto, &message(packfinderz().to_string(), headers)).unwrap_err();
        assert!(
            matches!(error, OpenError::NotEnvelope { .. }),
            "{headers:?}: {error}"
        );
    }
    let error = open(Opening::Auto, &message("{", &structured)).unwrap_err();
    assert!(matches!(error, OpenError::NotJson { .. }), "{error}");
    assert_eq!(kind(&cloudevent(), &structured), EnvelopeKind::Cloudevents);
}

#[test]
fn a_binary_cloudevent_is_not_looked_into() {
    for prefix in ["ce_", "ce-", "Ce-", "CE_"] {
        let names = [
            "id",
            "type",
            "source",
            "time",
            "subject",
            "traceparent",
            "tenant",
        ];
        let values = [
            "e-1",
            "order.placed",
            "/orders",
            "2026",
            "7",
            PARENT,
            "acme",
        ];
        let names: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
        let headers: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
        let body = packfinderz().to_string();
        let opened = open(Opening::Auto, &message(body.clone(), &headers)).unwrap();
        assert_eq!(opened.envelope, EnvelopeKind::Cloudevents);
        assert_eq!(opened.data, body);
        assert_eq!(opened.id.unwrap().as_str(), "e-1");
        assert_eq!(opened.event_type.unwrap(), "order.placed");
        assert_eq!(opened.source.unwrap(), "/orders");
        assert_eq!(opened.occurred_at.unwrap(), "2026");
        assert_eq!(opened.aggregate_id.unwrap(), "7");
        assert_eq!(opened.traceparent.unwrap(), PARENT);
        assert_eq!(Value::from(opened.metadata), json!({ "tenant": "acme" }));
    }
}

#[test]
fn plain_names_are_facts_only_beside_an_id() {
    let plain = [("type", "json"), ("source", "a"), ("version", "9")];
    let opened = open(Opening::Bare, &message("{}", &plain)).unwrap();
    assert_eq!(
        (opened.event_type, opened.source, opened.version),
        (None, None, None)
    );
    let beside = [("id", "e-1"), ("type", "order.placed"), ("version", "9")];
    let opened = open(Opening::Bare, &message("{}", &beside)).unwrap();
    assert_eq!(opened.event_type.as_deref(), Some("order.placed"));
    assert_eq!(opened.version, None);
}

#[test]
fn headers_that_are_not_text_or_come_twice_do_no_harm() {
    let mut strange = message("{}", &[("event_type", "first"), ("Event_Type", "last")]);
    strange.headers.push(Header {
        name: "event_id".into(),
        value: Bytes::from_static(&[0xff, 0xfe]),
    });
    let opened = open(Opening::Auto, &strange).unwrap();
    assert_eq!(opened.id, None);
    assert_eq!(opened.event_type.as_deref(), Some("last"));
    let event = Opened {
        id: Some("e-1".into()),
        ..opened
    }
    .event::<Value>(&strange)
    .unwrap();
    assert_eq!(event.headers.len(), 2);
}

#[test]
fn a_trace_is_taken_where_it_stands_and_never_made_up() {
    let parent = |metadata: Value, headers: &[(&str, &str)]| {
        let body = with(polyshop(), "metadata", metadata).to_string();
        let opened = open(Opening::Auto, &message(body, headers)).unwrap();
        (
            opened.traceparent.clone(),
            opened.trace_id().map(String::from),
        )
    };
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let whole = (Some(PARENT.to_owned()), Some(id.to_owned()));
    assert_eq!(parent(json!({}), &[("traceparent", PARENT)]), whole);
    assert_eq!(parent(json!({ "traceId": PARENT }), &[]), whole);
    assert_eq!(
        parent(json!({ "traceId": id, "traceparent": PARENT }), &[]),
        whole
    );
    // A trace id alone names no span: it is for logs.
    assert_eq!(
        parent(json!({ "traceId": id }), &[]),
        (None, Some(id.into()))
    );
    let upper = id.to_uppercase();
    let not_w3c = [
        "req-17",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        &upper,
        &format!("{PARENT}-extra"),
    ];
    for text in not_w3c {
        assert_eq!(
            parent(json!({ "traceId": text }), &[("traceparent", text)]),
            (None, None)
        );
    }
}
