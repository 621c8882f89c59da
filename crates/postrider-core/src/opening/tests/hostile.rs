//! Bytes that nobody meant: never a panic, always a bounded answer.

use super::*;

const OPENINGS: [Opening; 5] = [
    Opening::Auto,
    Opening::Bare,
    Opening::Packfinderz,
    Opening::Polyshop,
    Opening::Cloudevents,
];

/// Opens it every way. What succeeds has its data within the body; what fails says so in a line.
fn open_all(message: &Message) {
    let body = message.payload.clone().unwrap_or_default();
    for opening in OPENINGS {
        match open(opening, message) {
            Ok(opened) => {
                assert!(
                    opened.data.is_empty() || body.as_ptr_range().contains(&opened.data.as_ptr())
                );
                if let Err(error) = opened.event::<Value>(message) {
                    assert!(error.to_string().len() < 300, "{error}");
                }
            }
            Err(error) => assert!(error.to_string().len() < 300, "{error}"),
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut bytes = vec![0; random.usize(..64)];
        random.fill(&mut bytes);
        let mut message = message(bytes.clone(), &[]);
        let names = [
            "event_id",
            "id",
            "ce_id",
            "ce_type",
            "content-type",
            "é_",
            "c",
        ];
        message.headers.push(Header {
            name: random.choice(names).unwrap().into(),
            value: bytes.into(),
        });
        open_all(&message);
    }
}

#[test]
fn mutated_envelopes_never_panic() {
    let mut random = fastrand::Rng::with_seed(2);
    let envelopes = [packfinderz(), polyshop(), cloudevent()].map(|envelope| envelope.to_string());
    for _ in 0..20_000 {
        let mut bytes = random.choice(&envelopes).unwrap().clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *random.choice(b"{}[]\",:\\0n").unwrap()),
                _ => bytes.truncate(at.max(8)),
            }
        }
        open_all(&message(bytes, &[("event_id", "e-1")]));
    }
}

#[test]
fn large_deep_and_wide_bodies_are_answered() {
    const LARGE: usize = 10 << 20;
    const MANY: usize = 1 << 20;
    let wide: Vec<String> = (0..200_000).map(|n| format!("\"m{n}\":{n}")).collect();
    let bodies = [
        "x".repeat(LARGE),
        format!("\"{}\"", "x".repeat(MANY)),
        with(packfinderz(), "eventId", "x".repeat(MANY).into()).to_string(),
        with(polyshop(), "eventType", "x".repeat(MANY).into()).to_string(),
        with(packfinderz(), "data", "x".repeat(LARGE).into()).to_string(),
        "[".repeat(MANY),
        r#"{"a":"#.repeat(MANY),
        format!("{{\"specversion\":\"1.0\",\"id\":{}", "[".repeat(MANY)),
        format!("{{{}}}", wide.join(",")),
    ];
    for body in bodies {
        open_all(&message(body, &[]));
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    for envelope in [packfinderz(), polyshop(), cloudevent()] {
        let text = with(envelope, "data", json!("DEEP")).to_string();
        open_all(&message(text.replace("\"DEEP\"", &deep), &[]));
    }
    let actor = with(packfinderz(), "actor", json!("DEEP")).to_string();
    open_all(&message(actor.replace("\"DEEP\"", &deep), &[]));
}
