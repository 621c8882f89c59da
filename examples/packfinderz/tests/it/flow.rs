//! From the api to the notification, with every event twice.

use postrider_testkit::redis::Redis;

use crate::world::{API, CONSUMER, PUBLISHER, World};

pub(crate) const HANDLED: &str = "postrider_consumer_handled_total";
pub(crate) const DUPLICATES: &str = "postrider_consumer_duplicates_total";

/// As after a publisher's crash between Pub/Sub's acknowledgement and its own commit: the row looks unpublished.
pub(crate) const FORGET: &str = "UPDATE outbox_events SET published_at = NULL";

/// A0-09, A1-14: the same event twice, through all programs, is one notification; its key lasts as long as the
/// environment says. Without the key, the rule on the event still holds.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_again_is_not_notified_of_again() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let hours = [("PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS", "168")];
    let consumer = world.ready(CONSUMER, &hours).await;
    world.upload(&api).await;
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
