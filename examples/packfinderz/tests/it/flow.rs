//! From the api to the notification, with every event twice.

use example_packfinderz::settings::DATABASE_URL;
use postrider_testkit::redis::Redis;
use rustix::process::Signal;
use serde_json::json;
use uuid::Uuid;

use crate::world::{API, CONSUMER, PUBLISHER, World};

const HANDLED: &str = "postrider_consumer_handled_total";
const DUPLICATES: &str = "postrider_consumer_duplicates_total";

/// As after a publisher's crash between Pub/Sub's acknowledgement and its own commit: the row looks unpublished.
const FORGET: &str = "UPDATE outbox_events SET published_at = NULL";

/// A0-07, A0-09, A1-14: the same event twice, through all programs, is one notification; its key lasts as long as the
/// environment says. Without the key, the rule on the event still holds.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_again_is_not_notified_of_again() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let hours = [("PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS", "168")];
    let consumer = world.ready(CONSUMER, &hours).await;
    let store = Uuid::now_v7();
    let (status, body) = api.post("/licenses", &json!({ "storeId": store })).await;
    assert_eq!(status, 201, "{body}");
    consumer.until_metric(HANDLED, 1).await;
    world.until_published(1).await;

    let event_id = world
        .database
        .text("SELECT event_id::text FROM notifications")
        .await
        .unwrap();
    let key = format!("pf:evt:processed:compliance:{event_id}");
    let redis = Redis::shared();
    let ttl = redis.command(&["TTL", &key]).await.unwrap();
    let ttl: u64 = ttl.parse().unwrap();
    assert!((167 * 3600 + 1..=168 * 3600).contains(&ttl), "{ttl}");

    world.database.execute(FORGET).await;
    consumer.until_metric(DUPLICATES, 1).await;
    assert_eq!(consumer.metric(HANDLED).await, 1);
    world.until_published(1).await;

    assert_eq!(redis.command(&["DEL", &key]).await.as_deref(), Some("1"));
    world.database.execute(FORGET).await;
    consumer
        .logged("notified of before, though Redis did not know")
        .await;
    consumer.until_metric(HANDLED, 2).await;
    assert_eq!(world.database.count("notifications").await, 1);
    assert_eq!(world.database.count("outbox_events").await, 1);
    redis.command(&["DEL", &key]).await;
}

/// S0-48: types that are none of its business are acknowledged and forgotten; the consumer goes on.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_other_types_are_ignored() {
    let world = World::new().await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let consumer = world.ready(CONSUMER, &[]).await;
    world.insert(3, 0).await;
    consumer.until_metric(HANDLED, 3).await;
    assert_eq!(world.database.count("notifications").await, 0);
}

/// A0-15: a consumer whose role has no rights on `outbox_events` works.
#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_needs_no_right_on_the_outbox() {
    let world = World::new().await;
    let (role, schema) = (
        format!("pf_{}", Uuid::now_v7().simple()),
        &world.database.schema,
    );
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT INSERT, SELECT ON notifications TO {role}"
    );
    world.database.execute(&grants).await;
    let url = world
        .database
        .url
        .replacen("postgres@", &format!("{role}@"), 1);
    assert!(url.contains(&role));
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let consumer = world.ready(CONSUMER, &[(DATABASE_URL, &url)]).await;
    let body = json!({ "storeId": Uuid::now_v7() });
    assert_eq!(api.post("/licenses", &body).await.0, 201);
    world.until_count("notifications", 1).await;

    consumer.signal(Signal::TERM);
    assert_eq!(consumer.ended().await.code(), Some(0));
    let revoke = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    world.database.execute(&revoke).await;
}
