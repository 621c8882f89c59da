//! Task 4 as the plan has it: the outbox as a stream of messages, each of which is acknowledged or given back.

use std::time::Duration;

use example_gopipe::{OutboxPublisherConfig, pipe};
use postrider::source::Messages;

use crate::world::{Running, World, until, worlds};

impl World {
    fn source(&self) -> (Running, Messages) {
        let config = OutboxPublisherConfig {
            poll_interval: Duration::from_millis(20),
            batch_size: 2,
        };
        let pool = self.database.pool.clone();
        let (source, messages) = config.source(pool, &self.outbox, &self.metrics);
        let run = |shutdown| async move { source.run(shutdown).await.unwrap() };
        (Running::start(run), messages)
    }
}

/// A4-10: "pipe pubCh into broker publisher": what the broker acknowledges is published, what it
/// refuses is offered again; the stream ends at a stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_piped_to_a_broker_publishes_the_outbox() {
    for world in worlds().await {
        is_piped_on(&world).await;
    }
}

async fn is_piped_on(world: &World) {
    world.place(1..=5).await;
    world.refuse_events(true).await;
    let (source, messages) = world.source();
    let piping = tokio::spawn(pipe(messages, world.broker.publisher()));
    until("some are refused", true, async || {
        world
            .database
            .count("postrider_troubles WHERE attempts > 0")
            .await
            >= 2
    })
    .await;
    assert_eq!(world.unpublished().await, 5);
    world.refuse_events(false).await;
    world.until_unpublished(0).await;
    source.stop().await;
    piping.await.unwrap();
    assert_eq!(world.sent().await.len(), 5);

    let (source, messages) = world.source();
    world.place([6]).await;
    let message = messages.next().await.unwrap();
    assert_eq!(message.message().topic.as_str(), world.events);
    // S4-47: the row's bytes and the attributes that were stored with it.
    let row = "SELECT data::text FROM outbox WHERE NOT published UNION ALL \
               SELECT name || '=' || value FROM outbox, jsonb_each_text(attributes::jsonb) AS a(name, value) \
               WHERE NOT published";
    let row: Vec<String> = (world.database.texts(row).await.into_iter())
        .flatten()
        .collect();
    let (data, attributes) = row.split_first().unwrap();
    assert_eq!(message.message().payload.as_deref(), Some(data.as_bytes()));
    let headers = message.message().headers.iter();
    let headers: Vec<String> = headers
        .map(|header| format!("{}={}", header.name, String::from_utf8_lossy(&header.value)))
        .collect();
    assert!(!attributes.is_empty());
    for attribute in attributes {
        assert!(headers.contains(attribute), "{attribute}: {headers:?}");
    }
    message.ack().unwrap();
    source.stop().await;
    assert!(messages.next().await.is_none());
    assert_eq!(world.unpublished().await, 0);
}

/// A4-12: cancelled while the broker has not answered, the source waits for the answer, records it,
/// and the stream ends; the next one repeats nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_stopped_records_what_is_in_flight_and_the_next_repeats_nothing() {
    for world in worlds().await {
        is_recorded_at_a_stop_on(&world).await;
    }
}

async fn is_recorded_at_a_stop_on(world: &World) {
    world.place(1..=3).await;
    world.gate.shut();
    let (source, messages) = world.source();
    let piping = tokio::spawn(pipe(messages, world.gate.clone()));
    world.gate.wait_until_held(1).await;
    source.tell_to_stop();
    world.gate.open();
    source.stop().await;
    piping.await.unwrap();
    let sent = world.sent().await.len();
    // One was in flight; the other of its batch was offered before the stop was noticed, or not at
    // all.
    assert!((1..=2).contains(&sent), "{sent}");
    assert_eq!(world.unpublished().await, 3 - sent as i64);

    let (source, messages) = world.source();
    let piping = tokio::spawn(pipe(messages, world.gate.clone()));
    world.until_unpublished(0).await;
    source.stop().await;
    piping.await.unwrap();
    assert_eq!(world.sent().await.len(), 3, "one was published twice");
}
