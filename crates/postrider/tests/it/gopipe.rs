//! gopipe: `outbox` with a published flag, topic and attributes as columns, any broker.

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Event, Topic};
use postrider_testkit::eventually;
use serde_json::json;

use crate::witness::NotedStore;
use crate::world::{World, event_ids, header, until_accepted, until_held};

const TOPIC: &str = "order-events";

fn order_placed(n: usize) -> Event {
    let event = Event::json("order.placed", &json!({ "order": n })).unwrap();
    event.topic(TOPIC).header("tenant", format!("t-{n}"))
}

const UNPUBLISHED: &str = "SELECT count(*) FROM outbox WHERE NOT published";

/// A4-10: acknowledged → published, with data and attributes as stored; nacked → still unpublished,
/// and offered again.
#[tokio::test]
async fn an_acknowledged_row_is_published_and_a_nacked_one_is_offered_again() {
    let world = World::new("gopipe").await;
    let events = [order_placed(1), order_placed(2)];
    world.emit(events.clone()).await;
    let broker = MemoryBroker::default();
    let nacked = events[1].id.to_string();
    broker.fail_next(1, Fault::Transient, move |message| {
        header(message, "id") == Some(&nacked)
    });
    let relay = world
        .relay(broker.clone())
        .config(|config| config.retry.backoff.base = std::time::Duration::from_millis(200))
        .start();
    world
        .until_count("the first is published", 1, UNPUBLISHED)
        .await;
    until_accepted(&broker, TOPIC, 2).await;
    world
        .until_count("the second is published", 0, UNPUBLISHED)
        .await;
    relay.stop().await;

    assert_eq!(
        event_ids(&broker, TOPIC, "id"),
        [events[0].id.as_str(), events[1].id.as_str()]
    );
    let messages = broker.messages(&Topic::from(TOPIC));
    for (n, message) in messages.iter().enumerate() {
        assert_eq!(
            header(message, "tenant"),
            Some(format!("t-{}", n + 1).as_str())
        );
        let stored = world
            .text(&format!(
                "SELECT data::text FROM outbox WHERE data->>'order' = '{}'",
                n + 1
            ))
            .await;
        assert_eq!(message.payload.as_deref(), Some(stored.as_bytes()));
    }
}

/// A4-11: the broker is slower than the poll interval: a row in flight is not offered again, by one
/// relay or by several.
#[tokio::test]
async fn a_row_in_flight_is_not_offered_again_however_often_is_polled() {
    for preset in ["gopipe", "native"] {
        is_not_offered_again_on(&World::new(preset).await).await;
    }
}

async fn is_not_offered_again_on(world: &World) {
    world.emit((0..5).map(order_placed)).await;
    let broker = MemoryBroker::default();
    broker.block();
    let mut relays = Vec::new();
    let mut notes = Vec::new();
    for _ in 0..3 {
        let (store, asked) = NotedStore::new(world.store());
        notes.push(asked);
        relays.push(world.relay(broker.clone()).store(store).start());
    }
    until_held(&broker, 1).await;
    let polls = || notes.iter().map(|asked| asked.count()).sum::<usize>();
    let before = polls();
    eventually("there were many polls meanwhile", async || {
        if polls() > before + 30 {
            Ok(())
        } else {
            Err(polls())
        }
    })
    .await;
    let offered: usize = notes
        .iter()
        .flat_map(|asked| asked.all())
        .map(|a| a.records.len())
        .sum();
    assert_eq!(offered, 5);

    broker.release();
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 5);
}

/// A4-12: told to stop with messages in flight, the relay still records their acknowledgements and ends;
/// the next one repeats none.
#[tokio::test]
async fn a_stop_with_messages_in_flight_records_them_and_a_restart_repeats_none() {
    for preset in ["gopipe", "native"] {
        is_recorded_at_a_stop_on(&World::new(preset).await).await;
    }
}

async fn is_recorded_at_a_stop_on(world: &World) {
    world.emit((0..30).map(order_placed)).await;
    let broker = MemoryBroker::default();
    broker.block();
    let plan = world
        .relay(broker.clone())
        .config(|config| config.batch = 10);
    let relay = plan.config(|config| config.claims = 1).start();
    until_held(&broker, 1).await;
    relay.shutdown.cancel();
    broker.release();
    relay.stop().await;
    assert_eq!(world.pending().await, 20, "one claim was in flight");
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 10);

    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 30);
    let mut sent = event_ids(&broker, TOPIC, world.id_attribute());
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), 30);
}
