//! What can be asked, on records of which everything is known.

use super::*;

#[tokio::test]
async fn a_record_is_found_by_everything_that_is_known_of_it() {
    let (outbox, project) = five_dead().await;
    outbox.emit("order.placed", "9").await;
    let api = Api::start(&project).await;
    api.counts("state=published", 1).await;
    for (query, count) in [
        ("", 6),
        ("state=dead", 5),
        ("state=pending", 0),
        ("state=waiting", 0),
        ("type=order.lost", 5),
        ("type=order%2Elost", 5),
        ("type=order.LOST", 0),
        ("key=7", 3),
        ("key=7&state=dead", 3),
        ("key=7&state=published", 0),
        ("key=10", 0),
        ("error=NO+ROUTE", 5),
        ("error=100%25", 0),
        ("error=_", 0),
        ("topic=order.lost", 0),
        ("since=1h", 6),
        ("until=1h", 0),
        ("since=2026-01-01T00:00:00Z", 6),
        ("since=2999-01-01T00:00:00Z", 0),
    ] {
        assert_eq!(api.count(query).await, count, "{query}");
        let records = api.ask(&format!("records?{query}")).await;
        assert_eq!(records["records"].as_array().unwrap().len() as u64, count);
        assert_eq!(records["next"], Value::Null);
    }
}

#[tokio::test]
async fn pages_give_every_record_once_and_in_order() {
    let (_outbox, project) = five_dead().await;
    let api = Api::start(&project).await;
    let all = api.ids("state=dead").await;
    assert_eq!(all.len(), 5);
    let (mut seen, mut from) = (Vec::new(), String::new());
    for pages in 1.. {
        let page = api.ask(&format!("records?state=dead&limit=2{from}")).await;
        for record in page["records"].as_array().unwrap() {
            seen.push(record["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else {
            assert_eq!(pages, 3);
            break;
        };
        let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        from = format!("&from={next}");
    }
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_record_has_its_fields_its_history_and_its_payload_only_when_asked_for() {
    let (_outbox, project) = five_dead().await;
    // The relay that let it die is gone: only the row knows.
    let api = Api::start(&project).await;
    let id = api.ids("key=8").await.remove(0);
    let found = api.ask(&format!("records/{id}")).await;
    let record = &found["record"];
    for (field, value) in [
        ("id", json!(id)),
        ("event_id", json!(id)),
        ("event_type", json!("order.lost")),
        ("aggregate_id", json!("8")),
        ("key", json!("8")),
        ("state", json!("dead")),
        ("attempts", json!(1)),
        ("published_at", Value::Null),
    ] {
        assert_eq!(record[field], value, "{field}");
    }
    assert!(record["payload_bytes"].as_u64().unwrap() > 10);
    let text = found.to_string();
    assert!(!text.contains("orderId"), "{text}");
    assert_eq!(whats(&found), ["emitted", "dead"]);
    assert_eq!(found["history"][1]["at"], Value::Null);

    let payload = api.ask(&format!("records/{id}/payload")).await;
    assert_eq!(
        (&payload["encoding"], &payload["truncated"]),
        (&json!("text"), &json!(false))
    );
    let event: Value = serde_json::from_str(payload["payload"].as_str().unwrap()).unwrap();
    assert_eq!(event["orderId"], "8");

    let (status, body) = api
        .post("dead/resend", &json!({ "ids": [id], "expect": 1 }))
        .await;
    assert_eq!((status, &body), (200, &json!({ "changed": 1 })));
    api.counts("key=8&state=dead", 2).await;
    let found = api.ask(&format!("records/{id}")).await;
    assert_eq!(whats(&found), ["emitted", "payload read", "resent", "dead"]);
    assert_eq!(found["history"][2]["by"], "loopback");
    let again = &found["history"][3];
    assert!(again["at"].is_string(), "{again}");
    assert_eq!(again["attempt"], 1);
    assert!(again["detail"].as_str().unwrap().contains("no route"));

    let (status, body) = api
        .get("/api/outboxes/orders/records/00000000-0000-0000-0000-000000000000")
        .await;
    assert_eq!(status, 404, "{body}");
    let audit = api.ask("audit").await;
    let actions: Vec<&str> = audit["acts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|act| act["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["resend", "read payload"]);
    assert_eq!(audit["acts"][0]["record"], json!(id));
}

fn whats(found: &Value) -> Vec<&str> {
    let steps = found["history"].as_array().unwrap();
    steps
        .iter()
        .map(|step| step["what"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_parked_key_is_shown_with_what_holds_it_up() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project(ROUTES);
    outbox.emit("order.lost", "7").await;
    for _ in 0..4 {
        outbox.emit("order.placed", "7").await;
    }
    outbox.emit("order.placed", "8").await;
    let api = Api::start(&project).await;
    api.counts("state=dead", 1).await;
    api.counts("state=published", 1).await;
    let parked = api.ask("parked").await;
    let keys = parked["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 1, "{parked}");
    assert_eq!(
        (&keys[0]["key"], &keys[0]["behind"]),
        (&json!("7"), &json!(4))
    );
    assert_eq!(keys[0]["first"]["event_type"], "order.lost");
    assert_eq!(keys[0]["first"]["state"], "dead");

    let id = keys[0]["first"]["id"].clone();
    let (status, body) = api
        .post("dead/discard", &json!({ "ids": [id], "expect": 1 }))
        .await;
    assert_eq!((status, body), (200, json!({ "changed": 1 })));
    api.counts("state=published", 5).await;
    assert_eq!(api.ask("parked").await, json!({ "keys": [] }));
}

#[tokio::test]
async fn a_diagnosis_names_a_broker_that_is_down() {
    let outbox = TestOutbox::create("polyshop").await;
    let broker = "kind = \"kafka\"\nbootstrap = \"127.0.0.1:1\"";
    let project = Project::new(&outbox.config_with(broker, ""));
    outbox.emit("order.placed", "7").await;
    let api = Api::start(&project).await;
    eventually("the broker is found to be down", async || {
        let found = api.ask("diagnosis").await;
        let findings = found["findings"].as_array().unwrap().clone();
        let broker = findings
            .into_iter()
            .find(|finding| finding["subject"] == "broker main");
        match broker {
            Some(finding) if finding["message"].as_str().unwrap().contains("breaker") => {
                assert_eq!(finding["level"], "error");
                assert!(finding["remedy"].is_string());
                Ok(())
            }
            other => Err((other, found)),
        }
    })
    .await;
    let overview = api.overview().await;
    assert_ne!(overview["breaker"], "closed");
    assert_eq!(overview["broker_state"]["ready"], false);
    assert_eq!(
        (&overview["ready"], &overview["pending"]),
        (&json!(false), &json!(1))
    );
}

/// The binary end to end: events come, and a client that lost its stream gets another.
#[tokio::test]
async fn events_stream_and_reconnect_and_end_with_the_process() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let api = Api::start(&project).await;
    let open = async || {
        let url = format!("{}/api/events", api.base);
        reqwest::get(url).await.unwrap()
    };
    let published = async |stream: &mut reqwest::Response| {
        let chunk = stream.chunk().await.unwrap().unwrap();
        let text = String::from_utf8(chunk.to_vec()).unwrap();
        let data = text.strip_prefix("event: overview\ndata: ").unwrap();
        let overview: Value = serde_json::from_str(data.trim_end()).unwrap();
        overview["outboxes"][0]["published_total"].as_u64().unwrap()
    };
    let mut stream = open().await;
    assert_eq!(published(&mut stream).await, 0);
    outbox.emit("order.placed", "7").await;
    while published(&mut stream).await == 0 {}
    drop(stream);
    let mut stream = open().await;
    assert_eq!(published(&mut stream).await, 1);
    api.relay.signal(rustix::process::Signal::TERM);
    while let Ok(Some(_)) = stream.chunk().await {}
    assert!(api.relay.exit().await.success());
}
