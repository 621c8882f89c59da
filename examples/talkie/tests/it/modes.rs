//! The outbox module inside the application, and as a process of its own, with the same settings.

use example_talkie::chat::TOPIC;
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use serde_json::Value;
use uuid::Uuid;

use crate::binary::{SettingsOnDisk, Talkie};
use crate::world::{World, message};

const QUICK: &str = "interval_ms = 20";

/// What Kafka has of a room. All tests share the topic.
async fn in_kafka(room: &str) -> Vec<KafkaRecord> {
    let mut records = Kafka::shared().records(TOPIC).await;
    records.retain(|record| record.key.as_deref() == Some(room.as_bytes()));
    records
}

fn room() -> String {
    format!("room-{}", Uuid::now_v7().simple())
}

/// A2-01, A2-02, A2-09: a message is posted over HTTP and stands on Kafka; posted again it is known, and nothing fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_posted_message_stands_on_kafka_once_however_often_it_is_posted() {
    let (world, settings, room) = (World::new().await, SettingsOnDisk::new(QUICK), room());
    let talkie = Talkie::start(&world, &settings, &["app"]).await;
    let message = message(&room, "hello");
    let (status, answer) = talkie.post(&message).await;
    assert_eq!((status, &answer["posted"]), (202, &"recorded".into()));
    world.until_state(&room, "published 0").await;
    let (status, answer) = talkie.post(&message).await;
    assert_eq!((status, &answer["posted"]), (200, &"known".into()));

    let records = in_kafka(&room).await;
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    let body: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
    assert_eq!(body, serde_json::to_value(&message).unwrap());
    let key = message.id.to_string();
    let carries = |(name, value): &(String, Option<Vec<u8>>)| {
        name == "idempotency_key" && value.as_deref() == Some(key.as_bytes())
    };
    assert!(record.headers.iter().any(carries), "{:?}", record.headers);
    assert_eq!(world.database.count("outbox").await, 1);

    let (status, metrics) = talkie.get("/metrics").await;
    assert_eq!(status, 200);
    for figure in [
        "postrider_published_total{outbox=\"talkie\"} 1",
        "postrider_failed_total{outbox=\"talkie\"} 0",
        "postrider_duplicates_suppressed_total{outbox=\"talkie\"} 1",
        "postrider_publish_seconds_count{outbox=\"talkie\"}",
    ] {
        assert!(metrics.contains(figure), "{figure} is not in\n{metrics}");
    }
    assert_eq!(talkie.interrupt().await, Some(0));
}

/// What `make run-talkie` runs, used as the README says.
#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_command_runs_until_ctrl_c_and_leaves_no_process() {
    let (world, settings, room) = (World::new().await, SettingsOnDisk::new(QUICK), room());
    let talkie = Talkie::readme(&world, &settings, TOPIC);
    assert_eq!(talkie.post(&message(&room, "hello")).await.0, 202);
    world.until_state(&room, "published 0").await;
    assert_eq!(talkie.interrupt().await, Some(0));
}

/// The application leaves publishing to another process, which has the same settings.
#[tokio::test(flavor = "multi_thread")]
async fn the_module_runs_alone_with_the_same_settings() {
    let (world, settings, room) = (World::new().await, SettingsOnDisk::new(QUICK), room());
    let app = Talkie::start(&world, &settings, &["app", "--no-publisher"]).await;
    assert_eq!(app.post(&message(&room, "hello")).await.0, 202);
    assert_eq!(world.state(&room).await.as_deref(), Some("pending 0"));

    let publisher = Talkie::start(&world, &settings, &["publisher"]).await;
    world.until_state(&room, "published 0").await;
    assert_eq!(in_kafka(&room).await.len(), 1);
    eventually("it is ready", async || {
        match publisher.get("/readyz").await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(publisher.get("/messages").await.0, 404);
    assert_eq!(app.interrupt().await, Some(0));
    assert_eq!(publisher.interrupt().await, Some(0));
}
