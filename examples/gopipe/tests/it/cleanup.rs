//! Task 5: both tables are cut back, in the background, and what is unpublished stays.

use std::time::Duration;

use example_gopipe::orders::{EVENTS, place_order};
use example_gopipe::{
    CleanupConfig, InboxConfig, OutboxConfig, OutboxPublisherConfig, init_publisher, start_cleanup,
};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::Topic;
use postrider_testkit::database::fresh_schema;

use crate::world::{Running, World, until, worlds};

#[test]
fn entries_are_kept_for_seven_days_and_looked_at_every_minute() {
    let inbox = CleanupConfig::inbox(&InboxConfig::new("order-service"));
    let outbox = CleanupConfig::outbox(&OutboxConfig::new(EVENTS).unwrap());
    for defaults in [inbox, outbox] {
        assert_eq!(defaults.retention, Duration::from_secs(7 * 24 * 60 * 60));
        assert_eq!(defaults.interval, Duration::from_secs(60));
    }
}

impl World {
    /// A task per table, each with its own retention.
    fn clean(&self, inbox_days: u64, outbox_days: u64) -> [Running; 2] {
        let inbox = (CleanupConfig::inbox(&self.inbox), inbox_days);
        let outbox = (CleanupConfig::outbox(&self.outbox), outbox_days);
        [inbox, outbox].map(|(config, days)| {
            let pool = self.database.pool.clone();
            let config = CleanupConfig {
                retention: Duration::from_secs(days * 24 * 60 * 60),
                interval: Duration::from_millis(20),
                batch: 100,
                ..config
            };
            Running::start(|shutdown| start_cleanup(pool, config, shutdown))
        })
    }

    async fn until_left(&self, left: &[&str]) {
        let rows = "SELECT event_type FROM outbox WHERE topic = 't' ORDER BY 1";
        let left: Vec<_> = left.iter().map(|row| Some((*row).to_owned())).collect();
        until("these are left", left, async || {
            self.database.texts(rows).await
        })
        .await;
    }

    /// 500 entries of the inbox, a published event and one that is not, of this age.
    async fn age(&self, days: u32) {
        let rows = format!(
            "INSERT INTO processed_messages (subscriber, message_id, created_at) \
             SELECT 's', '{days}-' || n, now() - interval '{days} days' FROM generate_series(1, 500) n; \
             INSERT INTO outbox (topic, event_type, data, attributes, published, created_at) \
             SELECT 't', '{days} ' || published, '{{}}', jsonb_build_object('id', '{days}'), published, \
             now() - interval '{days} days' FROM unnest(ARRAY[true, false]) AS published;"
        );
        self.database.execute(&rows).await;
    }
}

/// A4-14: entries and published rows older than the retention go, in the configured interval, beside a router at work;
/// unpublished ones stay whatever their age, and the task ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn old_entries_and_published_rows_go_while_messages_are_handled() {
    for world in worlds().await {
        old_rows_go_on(&world).await;
    }
}

async fn old_rows_go_on(world: &World) {
    world.age(6).await;
    world.age(8).await;
    let cleaning = world.clean(7, 7);
    let router = Running::consumer(world.router().handle(place_order));
    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    until("old entries are gone", 501, async || {
        world.database.count("processed_messages").await
    })
    .await;
    world.until_left(&["6 false", "6 true", "8 false"]).await;

    // It runs again and again: a row that grows old later goes too.
    let aged =
        "UPDATE outbox SET created_at = now() - interval '8 days' WHERE event_type = '6 true'";
    world.database.execute(aged).await;
    world.until_left(&["6 false", "8 false"]).await;
    for cleaning in cleaning {
        cleaning.stop().await;
    }
    router.stop().await;
}

/// S4-56, S4-66: each table has a retention of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_kept_for_as_long_as_its_own_retention_says() {
    let [world, _] = worlds().await;
    world.age(6).await;
    let cleaning = world.clean(7, 5);
    world.until_left(&["6 false"]).await;
    assert_eq!(world.database.count("processed_messages").await, 500);
    for cleaning in cleaning {
        cleaning.stop().await;
    }
    // And the other way around.
    let cleaning = world.clean(5, 7);
    until("entries are gone", 0, async || {
        world.database.count("processed_messages").await
    })
    .await;
    for cleaning in cleaning {
        cleaning.stop().await;
    }
}

/// A4-14: while both deletes are under way, their rows locked and nothing committed, a message is handled and its event
/// published: neither waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_handled_and_published_while_a_delete_is_under_way() {
    for world in worlds().await {
        nothing_waits_for_a_delete_on(&world).await;
    }
}

async fn nothing_waits_for_a_delete_on(world: &World) {
    world.age(8).await;
    let unpublished = "DELETE FROM outbox WHERE NOT published";
    world.database.execute(unpublished).await;
    let deletes = world
        .hold_up("DELETE", &["processed_messages", "outbox"])
        .await;
    let cleaning = world.clean(7, 7);
    deletes.until_waiting(&world.database, 2).await;

    let (router, publisher) = (
        Running::consumer(world.router().handle(place_order)),
        world.publish(100),
    );
    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    let published = format!("outbox WHERE topic = '{}' AND published", world.events);
    until("its event is published", 1, async || {
        world.database.count(&published).await
    })
    .await;
    // They were under way all the time.
    deletes.until_waiting(&world.database, 2).await;
    assert_eq!(world.database.count("processed_messages").await, 501);
    deletes.let_go().await;
    world.until_left(&[]).await;
    for running in cleaning.into_iter().chain([router, publisher]) {
        running.stop().await;
    }
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
    init_publisher(&database.pool, &outbox).await.unwrap();
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
