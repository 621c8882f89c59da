//! Resending and discarding: what was asked for, all of it, and nothing else.

use postrider_testkit::kafka::{Kafka, KafkaRecord};

use super::*;

#[tokio::test]
async fn a_number_that_is_not_right_changes_nothing() {
    let (outbox, project) = five_dead().await;
    let api = Api::start(&project).await;
    let some = api.ids("key=7").await;
    let before = rows(&outbox).await;
    for verb in ["dead/resend", "dead/discard"] {
        for (which, count) in [
            (json!({ "filter": {}, "expect": 4 }), 5),
            (json!({ "filter": {}, "expect": 6 }), 5),
            (json!({ "filter": { "key": "7" }, "expect": 5 }), 3),
            (json!({ "filter": { "key": "9" }, "expect": 1 }), 0),
            (json!({ "ids": some, "expect": 2 }), 3),
            (json!({ "ids": [some[0], some[0]], "expect": 2 }), 1),
        ] {
            let (status, body) = api.post(verb, &which).await;
            assert_eq!(
                (status, &body["count"]),
                (409, &json!(count)),
                "{which}: {body}"
            );
            assert!(
                body["error"]
                    .as_str()
                    .unwrap()
                    .contains("nothing was changed")
            );
        }
        for wrong in [
            json!({}),
            json!({ "expect": 5 }),
            json!({ "filter": {} }),
            json!({ "ids": [], "expect": 0 }),
            json!({ "ids": some, "filter": {}, "expect": 3 }),
            json!({ "filter": { "state": "pending" }, "expect": 5 }),
            json!({ "filter": { "key": "" }, "expect": 5 }),
            json!({ "filter": { "kye": "7" }, "expect": 5 }),
            json!({ "filter": {}, "expect": -5 }),
            json!({ "filter": {}, "expect": 100_001 }),
            json!({ "ids": ["not a uuid"], "expect": 1 }),
        ] {
            let (status, body) = api.post(verb, &wrong).await;
            assert_eq!(status, 400, "{wrong}: {body}");
        }
    }
    assert_eq!(rows(&outbox).await, before);
    assert_eq!(outbox.database.count("postrider_audit").await, 0);
}

async fn rows(outbox: &TestOutbox) -> Vec<Option<String>> {
    outbox
        .database
        .texts("SELECT o::text FROM outbox_events o ORDER BY id")
        .await
}

#[tokio::test]
async fn discarding_by_id_by_key_and_by_filter_deletes_those_and_no_others() {
    let (outbox, project) = five_dead().await;
    let api = Api::start(&project).await;
    let first = api.ids("key=7").await.remove(0);
    for (which, changed, left) in [
        (json!({ "ids": [first], "expect": 1 }), 1, 4),
        (json!({ "filter": { "key": "7" }, "expect": 2 }), 2, 2),
        (
            json!({ "filter": { "error": "no route", "since": "1h" }, "expect": 2 }),
            2,
            0,
        ),
    ] {
        let (status, body) = api.post("dead/discard", &which).await;
        assert_eq!(
            (status, body),
            (200, json!({ "changed": changed })),
            "{which}"
        );
        assert_eq!(outbox.database.count("outbox_events").await, left);
    }
    let written = "postrider_audit WHERE action = 'discard' AND who = 'loopback'";
    assert_eq!(outbox.database.count(written).await, 5);
    let line = api.relay.logged("admin: dead records were changed").await;
    assert_eq!(
        (&line["by"], &line["action"]),
        (&json!("loopback"), &json!("discarded"))
    );
}

/// A key's run, resent at once, arrives in its order; on a real broker, with the relay running.
#[tokio::test]
async fn a_keys_run_is_resent_in_its_order() {
    const RUN: usize = 20;
    let outbox = TestOutbox::create("polyshop").await;
    let kafka = Kafka::shared();
    let topic = kafka.fresh_topic(3).await;
    let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
    let lines = |route: &str| {
        format!(
            "on_dead = \"skip\"\ntopic = \"{topic}\"\n[[outbox.route]]\nevent_type = \"{route}\"\n"
        )
    };
    let mut emitted = Vec::new();
    for n in 0..RUN * 2 {
        let key = if n % 2 == 0 { "7" } else { "8" };
        let id = outbox.emit("order.lost", key).await;
        if key == "7" {
            emitted.push(id.to_string());
        }
    }
    let failing = Project::new(&outbox.config_with(&broker, &lines("order.placed")));
    let api = Api::start(&failing).await;
    api.counts("state=dead", RUN as u64 * 2).await;
    drop(api);
    let mended = Project::new(&outbox.config_with(&broker, &lines("order.lost")));
    let api = Api::start(&mended).await;
    let run = json!({ "filter": { "key": "7" }, "expect": RUN });
    let (status, body) = api.post("dead/resend", &run).await;
    assert_eq!((status, body), (200, json!({ "changed": RUN })));
    api.counts("key=7&state=published", RUN as u64).await;
    assert_eq!(api.count("key=8&state=dead").await, RUN as u64);
    let arrived: Vec<String> = kafka.records(&topic).await.iter().map(event_id).collect();
    assert_eq!(arrived, emitted);
}

fn event_id(record: &KafkaRecord) -> String {
    let envelope: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
    envelope["eventId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn two_clients_that_confirm_the_same_number_change_it_once() {
    let (outbox, project) = five_dead().await;
    let api = Api::start(&project).await;
    let all = json!({ "filter": {}, "expect": 5 });
    let (first, second) = tokio::join!(
        api.post("dead/discard", &all),
        api.post("dead/discard", &all)
    );
    let changed: u64 = [first, second]
        .iter()
        .filter(|(status, _)| *status == 200)
        .map(|(_, body)| body["changed"].as_u64().unwrap())
        .sum();
    assert_eq!(changed, 5);
    assert_eq!(outbox.database.count("outbox_events").await, 0);
    assert_eq!(outbox.database.count("postrider_audit").await, 5);
}
