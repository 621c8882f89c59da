//! Task 5: both tables are cut back, in the background, and what is unpublished stays.

use std::time::Duration;

use example_gopipe::orders::place_order;
use example_gopipe::{CleanupConfig, start_cleanup};

use crate::world::{Running, World, until};

#[test]
fn entries_are_kept_for_seven_days_and_looked_at_every_minute() {
    let defaults = CleanupConfig::default();
    assert_eq!(defaults.keep, Duration::from_secs(7 * 24 * 60 * 60));
    assert_eq!(defaults.every, Duration::from_secs(60));
}

/// A4-14: entries and published rows older than the retention go, in the configured interval, beside a router at work;
/// unpublished ones stay whatever their age, and the task ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn old_entries_and_published_rows_go_while_messages_are_handled() {
    let world = World::new().await;
    let age = |days: u32| {
        format!(
            "INSERT INTO processed_messages (subscriber, message_id, created_at) \
             SELECT 's', '{days}-' || n, now() - interval '{days} days' FROM generate_series(1, 500) n; \
             INSERT INTO outbox (topic, event_type, data, attributes, published, created_at) \
             SELECT 't', '{days} ' || published, '{{}}', '{{}}', published, now() - interval '{days} days' \
             FROM unnest(ARRAY[true, false]) AS published;"
        )
    };
    world.database.execute(&(age(6) + &age(8))).await;
    let (pool, inbox, outbox) = (
        world.database.pool.clone(),
        world.inbox.clone(),
        world.outbox.clone(),
    );
    let config = CleanupConfig {
        every: Duration::from_millis(20),
        batch: 100,
        ..CleanupConfig::default()
    };
    let cleaning = Running::start(|shutdown| async move {
        start_cleanup(pool, &inbox, &outbox, config, shutdown).await;
    });
    let router = Running::consumer(world.router().handle(place_order));
    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    until("old entries are gone", 501, async || {
        world.database.count("processed_messages").await
    })
    .await;
    let left = "SELECT event_type FROM outbox WHERE topic = 't' ORDER BY 1";
    let expected = ["6 false", "6 true", "8 false"].map(|row| Some(row.to_owned()));
    until(
        "the old published row is gone",
        expected.to_vec(),
        async || world.database.texts(left).await,
    )
    .await;

    // It runs again and again: a row that grows old later goes too.
    let aged =
        "UPDATE outbox SET created_at = now() - interval '8 days' WHERE event_type = '6 true'";
    world.database.execute(aged).await;
    until("it is gone", 2, async || {
        world.database.count("outbox WHERE topic = 't'").await
    })
    .await;
    cleaning.stop().await;
    router.stop().await;
}
