//! Rows, transactions and payloads that mean harm: none of them stops the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use postrider::brokers::memory::{Fault, MemoryBroker, MemoryConfig};
use postrider::core::{Event, Message, Ordering, Topic};

use crate::packfinderz::{TOPIC, license_event};
use crate::witness::GatedStore;
use crate::world::{World, event_ids, holds, is_sample, until_accepted};

async fn by_key(preset: &str) -> World {
    World::with(preset, |layout| layout.ordering = Ordering::Key).await
}

/// P6: a poison event is tried again and again; its own key waits behind it, all others flow.
#[tokio::test]
async fn a_poison_event_delays_its_own_key_only() {
    for preset in ["polyshop", "native"] {
        let mut world = World::new(preset).await;
        world.max_attempts = u32::MAX;
        world
            .emit([1, 2].map(|number| world.numbered_sample("poison", number)))
            .await;
        let broker = MemoryBroker::default();
        let poisonous = Arc::new(AtomicBool::new(true));
        let (still, is_poison) = (Arc::clone(&poisonous), is_sample("poison", 1));
        let matches = move |message: &Message| still.load(Relaxed) && is_poison(message);
        broker.fail_next(u32::MAX, Fault::Transient, matches);
        let relay = world.relay(broker.clone()).start();
        for n in 0..10 {
            world.emit([world.sample(&format!("other-{n}"))]).await;
        }
        until_accepted(&broker, world.sample_topic(), 10).await;
        assert!(
            world.sample_numbers(&broker, "poison").is_empty(),
            "{preset}: a later event overtook the poison"
        );
        // Once it is taken, the key goes on in order.
        poisonous.store(false, Relaxed);
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_numbers(&broker, "poison"), [1, 2], "{preset}");
    }
}

/// More dead rows than a batch holds do not keep the living from the broker.
#[tokio::test]
async fn more_dead_rows_than_a_batch_starve_nobody() {
    for preset in ["packfinderz", "talkie", "gopipe"] {
        let world = World::new(preset).await;
        world.emit((0..25).map(|_| world.sample("poison"))).await;
        world.emit((0..5).map(|_| world.sample("good"))).await;
        let broker = MemoryBroker::default();
        broker.fail_next(u32::MAX, Fault::Permanent, |message| {
            holds(message, "poison")
        });
        let relay = world
            .relay(broker.clone())
            .config(|config| config.batch = 5)
            .start();
        until_accepted(&broker, world.sample_topic(), 5).await;
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.dead().await.len(), 25, "{preset}");
        assert_eq!(world.sample_ids(&broker).len(), 5, "{preset}");
    }
}

/// A payload of 10 MB goes through byte for byte, and one that is too large for the broker is dead.
#[tokio::test]
async fn ten_megabytes_pass_and_what_is_over_the_brokers_limit_is_dead() {
    for preset in ["talkie", "native"] {
        let world = by_key(preset).await;
        let sized = |key: &str, bytes: usize| {
            let payload = format!("{{\"text\": \"{}\"}}", "x".repeat(bytes));
            Event::raw("", payload).topic("large").key(key)
        };
        let passes = sized("a", 10 << 20);
        world
            .emit([passes.clone(), sized("b", 21 << 20), sized("c", 10)])
            .await;
        let limits = MemoryConfig {
            message_bytes_max: 20 << 20,
            ..MemoryConfig::default()
        };
        let broker = MemoryBroker::new(limits);
        let relay = world.relay(broker.clone()).start();
        until_accepted(&broker, "large", 2).await;
        world.until_drained().await;
        relay.stop().await;

        let messages = broker.messages(&Topic::from("large"));
        let large = messages.iter().find(|message| message.size() > 1 << 20);
        assert!(
            large.unwrap().payload.as_deref() == Some(&passes.payload[..]),
            "{preset}: the payload was changed"
        );
        let dead = world.dead().await;
        assert_eq!(dead.len(), 1, "{preset}");
        let error = dead[0].error.as_deref().unwrap();
        assert!(error.contains("limit"), "{error}");
    }
}

/// A row whose own columns make no sense is dead with a reason; its neighbours go out.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_dead_and_its_neighbours_go_out() {
    let world = World::new("gopipe").await;
    world
        .execute(
            "INSERT INTO outbox (topic, event_type, data, attributes) VALUES \
             ('t', 'e', '{}', '[1, 2]'), ('t', 'e', '{}', '{\"id\": \"good\"}'), \
             ('', 'e', '{}', '{\"id\": \"no topic\"}'), ('t', 'e', '{}', '7')",
        )
        .await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(event_ids(&broker, "t", "id"), ["good"]);
    let dead = world.dead().await;
    assert_eq!(dead.len(), 3, "{dead:?}");
    assert!(dead.iter().all(|row| row.error.is_some()));
}

/// Somebody's own transaction has locked a row: the others are published meanwhile, this one after.
#[tokio::test]
async fn a_row_that_somebody_has_locked_holds_no_other_row_up() {
    let world = World::new("packfinderz").await;
    let events: Vec<Event> = (0..5).map(|_| license_event()).collect();
    world.emit(events.clone()).await;
    let mut tx = world.pool().begin().await.unwrap();
    let lock = format!(
        "SELECT 1 FROM outbox_events WHERE id = '{}' FOR UPDATE",
        events[0].id
    );
    sqlx::query(sqlx::AssertSqlSafe(lock))
        .execute(&mut *tx)
        .await
        .unwrap();
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    until_accepted(&broker, TOPIC, 4).await;
    tx.rollback().await.unwrap();
    until_accepted(&broker, TOPIC, 5).await;
    world.until_drained().await;
    relay.stop().await;
    let sent = event_ids(&broker, TOPIC, "event_id");
    assert_eq!(sent[4], events[0].id.as_str());
}

/// An operator deletes a row that is being sent: the relay notes it and goes on.
#[tokio::test]
async fn a_row_deleted_while_it_is_sent_is_noted_and_forgotten() {
    let world = World::new("talkie").await;
    world.emit([crate::talkie::event("a")]).await;
    let broker = MemoryBroker::default();
    let (store, mut gate) = GatedStore::new(world.store());
    let relay = world.relay(broker.clone()).store(store).start();
    gate.wait_until_reached(1).await;
    world.execute("DELETE FROM outbox").await;
    gate.open();
    relay.until_metric("postrider_lapsed_total", 1.0).await;
    world.emit([crate::talkie::event("b")]).await;
    until_accepted(&broker, crate::talkie::TOPIC, 2).await;
    world.until_drained().await;
    relay.stop().await;
}

/// Keys of any text, and rows without a key, keep their way with order per key.
#[tokio::test]
async fn strange_keys_and_rows_without_a_key_are_published() {
    for preset in ["talkie", "native"] {
        strange_keys_are_published_on(&by_key(preset).await).await;
    }
}

async fn strange_keys_are_published_on(world: &World) {
    let long = "k".repeat(2000);
    let keys = [
        "",
        " ",
        "'; DROP TABLE outbox; --",
        "ключ\u{1f511}",
        "{}",
        "NULL",
        &long,
    ];
    world.emit(keys.map(crate::talkie::event)).await;
    let keyless = Event::raw("", "{}").topic(crate::talkie::TOPIC);
    world.emit([keyless]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    let messages = broker.messages(&Topic::from(crate::talkie::TOPIC));
    assert_eq!(messages.len(), keys.len() + 1);
    for key in keys {
        assert!(
            messages
                .iter()
                .any(|m| m.key.as_ref().is_some_and(|k| k.as_str() == Some(key))),
            "{key}"
        );
    }
    assert_eq!(
        messages
            .iter()
            .filter(|message| message.key.is_none())
            .count(),
        1
    );
}

/// A publish that takes longer than its deadline is an outage, not a failure of its events.
#[tokio::test]
async fn a_publish_that_outlasts_its_deadline_burns_no_attempt() {
    for preset in ["polyshop", "native"] {
        let world = World::new(preset).await;
        world.emit([world.numbered_sample("a", 1)]).await;
        let broker = MemoryBroker::default();
        broker.block();
        let relay = world
            .relay(broker.clone())
            .config(|config| config.publish_timeout = Duration::from_millis(200))
            .start();
        relay.until_metric("postrider_breaker_open", 1.0).await;
        broker.release();
        world.until_drained().await;
        assert_eq!(relay.metric("postrider_failed_total"), 0.0, "{preset}");
        relay.stop().await;
        assert_eq!(world.sample_numbers(&broker, "a"), [1], "{preset}");
    }
}
