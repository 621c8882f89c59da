//! Replays by the API, on a real broker.

use postrider_testkit::kafka::Kafka;

use super::*;

async fn ended(api: &Api) -> Value {
    eventually("the replay ends", async || {
        let last = api.ask("replay").await["replay"].clone();
        match last["state"].as_str() {
            Some("running") | None => Err(last),
            Some(_) => Ok(last),
        }
    })
    .await
}

#[tokio::test]
async fn published_records_are_sent_again_watched_and_stopped() {
    let outbox = TestOutbox::create("polyshop").await;
    let kafka = Kafka::shared();
    let topic = kafka.fresh_topic(1).await;
    let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
    let lines = format!("topic = \"{topic}\"");
    let project = Project::new(&outbox.config_with(&broker, &lines));
    for n in 0..10 {
        outbox.emit("order.placed", &n.to_string()).await;
    }
    let api = Api::start(&project).await;
    api.counts("state=published", 10).await;
    assert_eq!(api.ask("replay").await, json!({ "replay": null }));
    for wrong in [
        json!({}),
        json!({ "until": "1h" }),
        json!({ "since": "1h", "rate": 0 }),
        json!({ "since": "1h", "to_topic": "" }),
        json!({ "since": "1h", "state": "dead" }),
        json!({ "ids": [] }),
    ] {
        let (status, body) = api.post("replay", &wrong).await;
        assert_eq!(status, 400, "{wrong}: {body}");
    }

    let (status, body) = api
        .post("replay", &json!({ "since": "1h", "type": "order.placed" }))
        .await;
    assert_eq!(status, 202, "{body}");
    assert_eq!(body["replay"]["by"], "loopback");
    let done = ended(&api).await;
    assert_eq!(
        (&done["state"], &done["sent"], &done["total"]),
        (&json!("done"), &json!(10), &json!(10)),
        "{done}"
    );
    let records = kafka.records(&topic).await;
    let marked = |record: &&postrider_testkit::kafka::KafkaRecord| {
        record
            .headers
            .iter()
            .any(|(name, _)| name == "postrider-replay")
    };
    assert_eq!(
        (records.len(), records.iter().filter(marked).count()),
        (20, 10)
    );

    // One at a time; a slow one is stopped.
    let slow = json!({ "since": "1h", "rate": 1 });
    assert_eq!(api.post("replay", &slow).await.0, 202);
    let (status, body) = api.post("replay", &slow).await;
    assert_eq!(status, 429, "{body}");
    let url = format!("{}/api/outboxes/orders/replay", api.base);
    let (status, body) = answer(api.client.delete(&url).send().await.unwrap()).await;
    assert_eq!(
        (status, &body["replay"]["state"]),
        (200, &json!("stopped")),
        "{body}"
    );
    assert!(body["replay"]["sent"].as_u64().unwrap() < 10);
    assert_eq!(api.count("state=published").await, 10);
    let audit = api.ask("audit").await;
    let acts = audit["acts"].as_array().unwrap();
    assert!(
        acts.iter()
            .all(|act| act["action"] == "replay" && act["by"] == "loopback")
    );
    api.relay.logged("admin: a replay ended").await;
}

/// A stop of the process stops its replay, and the audit table says how far it came.
#[tokio::test]
async fn a_replay_ends_with_the_process() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    for n in 0..10 {
        outbox.emit("order.placed", &n.to_string()).await;
    }
    let api = Api::start(&project).await;
    api.counts("state=published", 10).await;
    let slow = json!({ "since": "1h", "rate": 1 });
    assert_eq!(api.post("replay", &slow).await.0, 202);
    api.relay.signal(rustix::process::Signal::TERM);
    assert!(api.relay.exit().await.success());
    let stopped = "postrider_audit WHERE action = 'replay' AND detail LIKE 'stopped with %'";
    assert_eq!(outbox.database.count(stopped).await, 1);
}
