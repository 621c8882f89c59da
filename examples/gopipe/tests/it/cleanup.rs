//! Task 5: both tables are cut back, in the background, and what is unpublished stays.

use std::time::Duration;

use example_gopipe::orders::{EVENTS, place_order};
use example_gopipe::{
    CleanupConfig, OutboxConfig, OutboxPublisherConfig, init_outbox, start_cleanup,
};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::Topic;
use postrider_testkit::database::fresh_schema;

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

/// The plan's fourth question: an outbox that is partitioned by time is published from as any other, and an old partition
/// without unpublished rows is dropped instead of its rows being deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_outbox_is_cut_back_by_dropping_partitions() {
    let database = fresh_schema().await;
    database
        .execute(
            "CREATE TABLE outbox (id bigserial, created_at timestamptz NOT NULL DEFAULT now(), topic text NOT NULL, \
             event_type text NOT NULL, data jsonb NOT NULL, attributes jsonb NOT NULL, \
             published boolean NOT NULL DEFAULT false, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at); \
             CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('2026-01-01'); \
             CREATE TABLE outbox_new PARTITION OF outbox FOR VALUES FROM ('2026-01-01') TO (MAXVALUE)",
        )
        .await;
    let outbox = OutboxConfig::new(EVENTS).unwrap();
    init_outbox(&database.pool, &outbox).await.unwrap();
    database
        .execute(
            "INSERT INTO outbox (topic, event_type, data, attributes, created_at) SELECT 'order-events', 'e', '{}', \
             jsonb_build_object('id', n), timestamptz '2026-01-01' + (n - 50) * interval '1 day' \
             FROM generate_series(1, 100) n",
        )
        .await;
    let (broker, metrics) = (MemoryBroker::default(), Metrics::new());
    let config = OutboxPublisherConfig {
        poll_interval: Duration::from_millis(20),
        batch_size: 30,
    };
    let publisher = std::sync::Arc::new(broker.clone());
    let relay = config.publisher(database.pool.clone(), &outbox, publisher, &metrics);
    let running = Running::start(|shutdown| async move { relay.run(shutdown).await.unwrap() });
    until("all are published", 0, async || {
        database.count("outbox WHERE NOT published").await
    })
    .await;
    database.execute("DROP TABLE outbox_old").await;
    database
        .execute("INSERT INTO outbox (topic, event_type, data, attributes) VALUES ('order-events', 'e', '{}', '{}')")
        .await;
    until("it goes on", 101, async || {
        broker.accepted(&Topic::from(EVENTS))
    })
    .await;
    running.stop().await;
}
