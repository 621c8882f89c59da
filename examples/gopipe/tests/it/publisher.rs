//! Task 4: the publisher polls, publishes, and marks what was acknowledged.

use std::time::Duration;

use example_gopipe::orders::{EVENTS, place_order};
use example_gopipe::{InboxConfig, OutboxPublisherConfig, router};
use postrider::brokers::memory::Fault;
use postrider::consumer::{Consumer, Context, raw};
use postrider::core::{Event, HandlerError, Header, Topic};
use postrider::stores::postgres::Tx;

use crate::world::{Running, World, until};

impl World {
    /// Commits orders, whose events then wait in the outbox.
    async fn place(&self, ids: impl IntoIterator<Item = u32>) {
        let running = Running::consumer(self.router().handle(place_order));
        for id in ids {
            self.send(&format!("message-{id}")).await;
        }
        self.until_all_acknowledged().await;
        running.stop().await;
    }

    fn publish(&self, batch_size: u32) -> Running {
        let config = OutboxPublisherConfig {
            poll_interval: Duration::from_millis(20),
            batch_size,
        };
        let pool = self.database.pool.clone();
        let relay = config.publisher(pool, &self.outbox, self.broker.publisher(), &self.metrics);
        Running::start(|shutdown| async move { relay.run(shutdown).await.unwrap() })
    }

    async fn unpublished(&self) -> i64 {
        self.database.count("outbox WHERE NOT published").await
    }
}

#[test]
fn the_publisher_polls_twice_a_second_for_a_hundred_rows() {
    let defaults = OutboxPublisherConfig::default();
    assert_eq!(defaults.poll_interval, Duration::from_millis(500));
    assert_eq!(defaults.batch_size, 100);
}

/// A4-10: acknowledged, a row is published, with its data and attributes; not acknowledged, it stays and is offered
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_row_is_published_and_another_is_offered_again() {
    let world = World::new().await;
    world.place([1, 2]).await;
    world.memory.fail_next(1, Fault::Transient, |_| true);
    let running = world.publish(1);
    until("one is published", 1, async || world.unpublished().await).await;
    until("both are published", 0, async || world.unpublished().await).await;
    running.stop().await;
    let messages = world.memory.messages(&Topic::from(EVENTS));
    assert_eq!(messages.len(), 2);
    for message in messages {
        let id = message
            .headers
            .iter()
            .find(|header| &*header.name == "id")
            .unwrap();
        let sql = format!(
            "SELECT data::text FROM outbox WHERE attributes ->> 'id' = '{}'",
            id.text().unwrap()
        );
        let stored = world.database.text(&sql).await.unwrap();
        assert_eq!(message.payload.as_deref(), Some(stored.as_bytes()));
        let typed = Header::new("type", "order-placed");
        assert!(message.headers.contains(&typed), "{:?}", message.headers);
    }
}

/// A4-11, A4-12: while a slow broker has a row nobody else is offered it; told to stop, the publisher records what is
/// acknowledged, and the next one repeats none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_records_what_is_in_flight_and_the_next_start_repeats_nothing() {
    let world = World::new().await;
    world.place(1..=5).await;
    world.memory.block();
    let (first, second) = (world.publish(2), world.publish(2));
    world.memory.wait_until_held(2).await;
    first.tell_to_stop();
    second.tell_to_stop();
    world.memory.release();
    first.stop().await;
    second.stop().await;
    assert_eq!((world.published(), world.unpublished().await), (4, 1));

    let running = world.publish(2);
    until("all are published", 0, async || world.unpublished().await).await;
    running.stop().await;
    assert_eq!(world.published(), 5, "one was published twice");
}

/// A4-13: what was published and not marked is published again with the same id, and the next inbox drops it.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_not_marked_is_published_again_and_the_next_inbox_drops_it() {
    let world = World::new().await;
    world.place([1]).await;
    for sent in 1..=2 {
        let running = world.publish(100);
        until("it is sent", sent, async || world.published()).await;
        until("it is marked", 0, async || world.unpublished().await).await;
        running.stop().await;
        // The crash: the broker has it, the mark was lost.
        world
            .database
            .execute("UPDATE outbox SET published = false")
            .await;
    }
    let inbox = InboxConfig::new("mailer");
    let events = world.broker.subscribe("mailer", EVENTS).unwrap();
    let consumer = Consumer::builder("mailer", events).metrics(&world.metrics);
    let chain = router(consumer, &world.database.pool, &inbox, &world.outbox);
    let running = Running::consumer(chain.handle(raw(read)));
    until("one is handled, one dropped", [true, true], async || {
        let text = world.metrics.encode();
        ["handled", "duplicates"].map(|name| {
            let figure = format!("postrider_consumer_{name}_total{{consumer=\"mailer\"}} 1");
            text.contains(&figure)
        })
    })
    .await;
    running.stop().await;
    assert_eq!(world.rows().await, "2 1 1");
}

async fn read(_: &mut Context<Tx>, _: Event<bytes::Bytes>) -> Result<(), HandlerError> {
    Ok(())
}
