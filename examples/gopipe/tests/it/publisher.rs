//! Task 4: the publisher polls, publishes, and marks what was acknowledged.

use std::collections::HashSet;
use std::time::Duration;

use example_gopipe::broker::Broker;
use example_gopipe::orders::place_order;
use example_gopipe::{InboxConfig, OutboxConfig, OutboxPublisherConfig, router};
use postrider::Metrics;
use postrider::consumer::{Consumer, Context, raw};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::Tx;
use postrider_testkit::database::Database;
use postrider_testkit::eventually;

use crate::world::{Running, World, until, worlds};

/// Looks at the outbox that only polls can explain: the publishers also count the backlog, every
/// few seconds.
const POLLS: i64 = 80;

impl World {
    /// Commits orders, whose events then wait in the outbox.
    pub(crate) async fn place(&self, ids: impl IntoIterator<Item = u32>) {
        let running = Running::consumer(self.router().handle(place_order));
        for id in ids {
            self.send(&format!("message-{id}")).await;
        }
        self.until_all_acknowledged().await;
        running.stop().await;
    }

    pub(crate) async fn until_unpublished(&self, rows: i64) {
        until("rows are published", rows, async || {
            self.unpublished().await
        })
        .await;
    }
}

#[test]
fn the_publisher_polls_twice_a_second_for_a_hundred_rows() {
    let defaults = OutboxPublisherConfig::default();
    assert_eq!(defaults.poll_interval, Duration::from_millis(500));
    assert_eq!(defaults.batch_size, 100);
}

/// A4-10: refused by the broker, rows stay unpublished and are offered again; acknowledged, they are published, with their
/// data and attributes.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_row_is_published_and_another_is_offered_again() {
    for world in worlds().await {
        is_offered_until_it_is_acknowledged_on(&world).await;
    }
}

async fn is_offered_until_it_is_acknowledged_on(world: &World) {
    world.place([1, 2]).await;
    world.refuse_events(true).await;
    let running = world.publish(1);
    until("both were refused", 2, async || {
        let tried = "postrider_troubles WHERE attempts > 0 AND NOT dead";
        world.database.count(tried).await
    })
    .await;
    assert_eq!((world.unpublished().await, world.sent().await), (2, vec![]));

    world.refuse_events(false).await;
    world.until_unpublished(0).await;
    running.stop().await;
    let sent = world.sent().await;
    assert_eq!(sent.len(), 2);
    for message in sent {
        let id = message.header("id").unwrap();
        let stored = format!("SELECT data::text FROM outbox WHERE attributes ->> 'id' = '{id}'");
        let stored = world.database.text(&stored).await.unwrap();
        assert_eq!(message.payload, stored.as_bytes());
        assert_eq!(message.header("type"), Some("order-placed"));
    }
}

/// A4-11: a slow broker has every row and acknowledges none. While its publishers wait for it as
/// long as many polls take, and another one that finds nothing polls that often, no row is offered
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_in_flight_is_not_offered_again_however_often_is_polled() {
    for world in worlds().await {
        is_not_offered_again_on(&world).await;
    }
}

async fn is_not_offered_again_on(world: &World) {
    world.place(1..=5).await;
    world.gate.shut();
    // There are more publishers than rows, so that at least one of them finds none.
    let publishers = [2; 6].map(|batch_size| world.publish(batch_size));
    world.gate.wait_until_held(5).await;
    let looks = async || {
        let looks = "SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables \
                     WHERE relid = 'outbox'::regclass";
        world.database.number(looks).await
    };
    let before = looks().await;
    eventually("there were many polls", async || {
        assert_eq!(world.gate.held(), 5, "one was offered again");
        match looks().await {
            now if now >= before + POLLS => Ok(()),
            now => Err((before, now)),
        }
    })
    .await;
    assert_eq!(
        (world.sent().await.len(), world.unpublished().await),
        (5, 5)
    );

    world.gate.open();
    world.until_unpublished(0).await;
    for publisher in publishers {
        publisher.stop().await;
    }
    let sent = world.sent().await;
    let ids: HashSet<_> = sent.iter().map(|message| message.header("id")).collect();
    assert_eq!((sent.len(), ids.len()), (5, 5), "one was published twice");
}

/// A4-12: told to stop while a slow broker has rows, the publishers record what is acknowledged and
/// end, and the next one repeats none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_records_what_is_in_flight_and_the_next_start_repeats_nothing() {
    for world in worlds().await {
        is_recorded_at_a_stop_on(&world).await;
    }
}

async fn is_recorded_at_a_stop_on(world: &World) {
    world.place(1..=5).await;
    world.gate.shut();
    let (first, second) = (world.publish(2), world.publish(2));
    world.gate.wait_until_held(4).await;
    assert_eq!(
        (world.sent().await.len(), world.unpublished().await),
        (4, 5)
    );
    first.tell_to_stop();
    second.tell_to_stop();
    world.gate.open();
    first.stop().await;
    second.stop().await;
    assert_eq!(
        (world.sent().await.len(), world.unpublished().await),
        (4, 1)
    );

    let running = world.publish(2);
    world.until_unpublished(0).await;
    running.stop().await;
    assert_eq!(world.sent().await.len(), 5, "one was published twice");
}

/// A4-13: what was published and not marked is published again with the same id, and the next inbox drops it. Here the
/// publisher is cut off; `binary.rs` kills the process.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_not_marked_is_published_again_and_the_next_inbox_drops_it() {
    for world in worlds().await {
        is_dropped_by_the_next_inbox_on(&world).await;
    }
}

async fn is_dropped_by_the_next_inbox_on(world: &World) {
    world.place([1]).await;
    let marking = world.hold_up("UPDATE", &["outbox"]).await;
    let running = world.publish(100);
    marking.until_waiting(&world.database, 1).await;
    running.crash().await;
    marking.let_go().await;
    assert_eq!(
        (world.sent().await.len(), world.unpublished().await),
        (1, 1)
    );

    let running = world.publish(100);
    world.until_unpublished(0).await;
    running.stop().await;
    let sent = world.sent().await;
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].header("id"), sent[1].header("id"));

    let World { broker, events, .. } = world;
    reads_two_as_one(broker, events, &world.database).await;
    assert_eq!(world.rows().await, "2 1 1");
}

/// Somebody reads the events, of which there are two with one id: one is handled, one is dropped.
pub(crate) async fn reads_two_as_one(broker: &Broker, events: &str, database: &Database) {
    let (inbox, metrics) = (InboxConfig::new("auditor"), Metrics::new());
    let outbox = OutboxConfig::new(events).unwrap();
    let subscription = broker.subscribe("auditor", events).unwrap();
    let consumer = Consumer::builder("auditor", subscription).metrics(&metrics);
    let chain = router(consumer, &database.pool, &inbox, &outbox);
    let running = Running::consumer(chain.handle(raw(read)));
    until("one is handled, one dropped", [true, true], async || {
        let text = metrics.encode();
        ["handled", "duplicates"].map(|name| {
            let figure = format!("postrider_consumer_{name}_total{{consumer=\"auditor\"}} 1");
            text.contains(&figure)
        })
    })
    .await;
    running.stop().await;
}

async fn read(_: &mut Context<Tx>, _: Event<bytes::Bytes>) -> Result<(), HandlerError> {
    Ok(())
}
