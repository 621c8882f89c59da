//! The clean-up beside a consumer at work.

use std::time::Duration;

use postrider::Cleanup;
use postrider::consumer::middleware::{Inbox, Transaction};
use postrider::core::Layout;
use postrider::stores::postgres::{Options, PostgresStore};
use tokio_util::sync::CancellationToken;

use super::acting::apply;
use super::world::{Running, World, until};

/// A4-14: entries and published records older than seven days go, in batches, while events are handled; unpublished
/// records stay whatever their age; a cancelled clean-up ends.
#[tokio::test(flavor = "multi_thread")]
async fn old_entries_go_and_unpublished_records_stay() {
    let world = World::new().await;
    world
        .database
        .execute(
            "INSERT INTO processed_messages (subscriber, message_id, created_at) \
             SELECT 'payments', n::text, now() - interval '8 days' FROM generate_series(1, 1000) n; \
             INSERT INTO processed_messages (subscriber, message_id, created_at) \
             VALUES ('payments', 'young', now() - interval '6 days'); \
             INSERT INTO outbox (topic, event_type, data, attributes, published, created_at) \
             SELECT 't', age || '-' || published, '{}', '{}', published, now() - age * interval '1 day' \
             FROM unnest(ARRAY[6, 8, 400]) age, unnest(ARRAY[true, false]) published",
        )
        .await;
    let store = PostgresStore::new(
        world.database.pool.clone(),
        Options::new(Layout::preset("gopipe").unwrap()),
    );
    let inbox = world.inbox().upkeep(world.database.pool.clone());
    let (shutdown, cleanup) = (
        CancellationToken::new(),
        Cleanup {
            batch: 50,
            ..Cleanup::default()
        },
    );
    let stop = shutdown.clone();
    let cleaning = tokio::spawn(async move {
        tokio::join!(
            cleanup.run("inbox", &inbox, stop.clone()),
            cleanup.run("outbox", &store, stop.clone())
        );
    });
    let consumer = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()));
    let running = Running::start(consumer.handle(apply));
    let old = "processed_messages WHERE message_id NOT IN ('young') AND created_at < now() - interval '7 days'";
    world.place("k", 1..=3).await;
    world.until_effects(3).await;
    assert!(
        world.database.count(old).await > 0,
        "the events did not have to wait for the clean-up"
    );
    until("old entries are gone", 0, async || {
        world.database.count(old).await
    })
    .await;
    let left = "SELECT event_type FROM outbox WHERE topic = 't' ORDER BY event_type";
    let expected = ["400-false", "6-false", "6-true", "8-false"].map(|name| Some(name.to_owned()));
    until("old records are gone", expected.to_vec(), async || {
        world.database.texts(left).await
    })
    .await;
    assert_eq!(
        world.database.count("processed_messages").await,
        4,
        "the young one and three new ones"
    );
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), cleaning)
        .await
        .expect("the clean-up ends")
        .unwrap();
    running.stop().await;
}
