//! What a claim keeps apart while it is held, what a crash leaves behind, and what a failure writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::text::ERROR_BYTES_MAX;
use postrider::core::{Event, Message, PublishError, Topic};
use postrider_testkit::eventually;
use sqlx::Row as _;

use crate::packfinderz::{TOPIC, license_event};
use crate::witness::{Answering, Call, CallKind, GatedStore, NotedPublisher, Notes};
use crate::world::{World, event_ids, header, until_accepted, until_held};

fn licenses(count: usize) -> Vec<Event> {
    (0..count).map(|_| license_event()).collect()
}

/// The event ids of every batch that a publisher was given.
fn batches(notes: &Notes<Call>) -> Vec<HashSet<String>> {
    let ids = |batch: Vec<Message>| {
        batch
            .iter()
            .map(|message| header(message, "event_id").unwrap().to_owned())
            .collect()
    };
    let published = |call: Call| match call.kind {
        CallKind::Publish(batch) => Some(ids(batch)),
        CallKind::Ping => None,
    };
    notes.all().into_iter().filter_map(published).collect()
}

/// A1-08: the broker blocks and two relays have claimed: no row is in both hands.
#[tokio::test]
async fn two_relays_hold_disjoint_rows_while_their_publish_is_in_flight() {
    let world = World::new("packfinderz").await;
    world.emit(licenses(20)).await;
    let broker = MemoryBroker::default();
    broker.block();
    let mut notes = Vec::new();
    let mut relays = Vec::new();
    for _ in 0..2 {
        let (publisher, calls) = NotedPublisher::new(broker.clone());
        notes.push(calls);
        let plan = world.relay(publisher).config(|config| config.batch = 10);
        relays.push(plan.config(|config| config.claims = 1).start());
    }
    until_held(&broker, 2).await;

    let held: Vec<HashSet<String>> = notes.iter().flat_map(batches).collect();
    assert_eq!(held.iter().map(HashSet::len).collect::<Vec<_>>(), [10, 10]);
    assert!(held[0].is_disjoint(&held[1]), "{held:?}");
    let published = "SELECT count(*) FROM outbox_events WHERE published_at IS NOT NULL";
    assert_eq!(world.number(published).await, 0);

    broker.release();
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 20);
}

/// A1-09: a row is unpublished until the broker's answer has come, however long that takes.
#[tokio::test]
async fn a_row_is_unpublished_until_the_broker_has_answered() {
    let world = World::new("packfinderz").await;
    world.emit(licenses(1)).await;
    let broker = MemoryBroker::default();
    broker.block();
    let relay = world.relay(broker.clone()).start();
    until_held(&broker, 1).await;
    let unpublished = "SELECT count(*) FROM outbox_events WHERE published_at IS NULL";
    assert_eq!(world.number(unpublished).await, 1);
    broker.release();
    world
        .until_count("the row is published", 0, unpublished)
        .await;
    relay.stop().await;
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 1);
}

/// A1-10: an endless error is cut at a character's boundary, counted once, and publishes nothing.
#[tokio::test]
async fn a_very_long_error_is_stored_bounded_and_as_valid_text() {
    let world = World::new("packfinderz").await;
    world.emit(licenses(1)).await;
    let calls = Arc::new(AtomicUsize::new(0));
    // Fails once for the row's own sake; from then on there is an outage, which counts no attempt.
    let broker = Answering(
        move |_: &Message| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(PublishError::Failed {
                reason: "é\0\u{1f98a}".repeat(100_000),
            }),
            _ => Err(PublishError::Unavailable {
                reason: "gone".into(),
                source: None,
            }),
        },
    );
    let relay = world.relay(broker).start();
    relay.until_metric("postrider_breaker_open", 1.0).await;
    relay.stop().await;

    let rows = world
        .rows("SELECT attempt_count, last_error, octet_length(last_error), published_at IS NULL FROM outbox_events")
        .await;
    assert_eq!(rows[0].get::<i32, _>(0), 1);
    let error: &str = rows[0].get(1);
    assert!(error.contains("é\u{fffd}\u{1f98a}é"), "{error}");
    assert!(rows[0].get::<i32, _>(2) as usize <= ERROR_BYTES_MAX);
    assert!(rows[0].get::<bool, _>(3));
}

/// Waits until nobody holds a lock on the outbox or on one of its lanes.
async fn until_no_lock_is_left(world: &World) {
    world
        .until_count(
            "no lock is left behind",
            0,
            "SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() \
             AND (relation = 'outbox_events'::regclass OR locktype = 'advisory' AND classid::int8 = \
               hashtext('postrider ' || 'outbox_events'::regclass::oid::text)::int8 & 4294967295)",
        )
        .await;
}

/// A1-11: the relay dies in the middle of a batch; the next one publishes everything with no manual
/// step, and no lock is left behind. (The real binary is killed with SIGKILL in postrider-cli's tests.)
#[tokio::test]
async fn a_relay_that_dies_mid_batch_leaves_no_lock_and_nothing_unpublished() {
    for preset in ["packfinderz", "polyshop"] {
        let world = World::new(preset).await;
        world
            .emit((0..30).map(|n| world.sample(&format!("key-{n}"))))
            .await;
        let broker = MemoryBroker::default();
        broker.block();
        let relay = world.relay(broker.clone()).start();
        until_held(&broker, 1).await;
        relay.abort().await;
        until_no_lock_is_left(&world).await;

        broker.release();
        let relay = world.relay(broker.clone()).start();
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_ids(&broker).len(), 30);
    }
}

/// A0-07, A3-06, A4-13: killed after the broker accepted and before the row was updated: another relay
/// publishes the same event again under the same id, so that a consumer can tell.
#[tokio::test]
async fn a_crash_between_publish_and_settle_repeats_the_event_under_the_same_id() {
    for preset in ["packfinderz", "polyshop", "gopipe"] {
        let world = World::new(preset).await;
        let event = world.sample("a");
        world.emit([event.clone()]).await;
        let broker = MemoryBroker::default();
        let (store, mut gate) = GatedStore::new(world.store());
        let relay = world.relay(broker.clone()).store(store).start();
        gate.wait_until_reached(1).await;
        assert_eq!(world.sample_ids(&broker).len(), 1);
        relay.abort().await;

        let relay = world.relay(broker.clone()).start();
        until_accepted(&broker, world.sample_topic(), 2).await;
        world.until_drained().await;
        relay.stop().await;
        // A consumer that keeps the ids it has seen acts once.
        assert_eq!(
            world.sample_ids(&broker),
            [event.id.as_str(), event.id.as_str()]
        );
        let messages = broker.messages(&Topic::from(world.sample_topic()));
        assert_eq!(messages[0].payload, messages[1].payload);
    }
}

/// A0-07, A3-06: of a batch that a crash cuts in two, only what was in flight comes twice.
#[tokio::test]
async fn only_what_was_in_flight_at_a_crash_comes_twice() {
    let world = World::new("packfinderz").await;
    let events = licenses(40);
    world.emit(events.clone()).await;
    let broker = MemoryBroker::default();
    let (store, mut gate) = GatedStore::new(world.store());
    let plan = world
        .relay(broker.clone())
        .store(store)
        .config(|config| config.batch = 10);
    let relay = plan.config(|config| config.claims = 1).start();
    gate.wait_until_reached(1).await;
    relay.abort().await;

    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    let sent = event_ids(&broker, TOPIC, "event_id");
    assert_eq!(sent.len(), 50);
    let distinct: HashSet<&String> = sent.iter().collect();
    assert_eq!(distinct.len(), 40);
    for event in events {
        assert!(distinct.contains(&event.id.to_string()));
    }
}

/// A broker that takes a message and loses the acknowledgement is met by the same event again, once
/// the relay knows that it is back.
#[tokio::test]
async fn a_lost_acknowledgement_repeats_the_event_and_loses_nothing() {
    let world = World::new("packfinderz").await;
    let events = licenses(3);
    world.emit(events.clone()).await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::AckLost, |_| true);
    let relay = world.relay(broker.clone()).start();
    eventually("every event has arrived", async || {
        let sent: HashSet<String> = event_ids(&broker, TOPIC, "event_id").into_iter().collect();
        if sent.len() == 3 { Ok(()) } else { Err(sent) }
    })
    .await;
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 4);
    assert_eq!(
        world
            .number("SELECT count(*) FROM outbox_events WHERE attempt_count > 0")
            .await,
        0
    );
}
