//! What a claim keeps apart while it is held, what a crash leaves behind, and what a failure writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::text::ERROR_BYTES_MAX;
use postrider::core::{Event, Message, PublishError, RecordState, Topic};
use postrider_testkit::eventually;

use crate::packfinderz::{TOPIC, license_event};
use crate::witness::{Answering, Call, CallKind, GatedStore, NotedPublisher, Notes};
use crate::world::{World, header, until_accepted, until_held};

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
    for preset in ["packfinderz", "native"] {
        let world = World::new(preset).await;
        world.emit([world.sample("a")]).await;
        let broker = MemoryBroker::default();
        broker.block();
        let relay = world.relay(broker.clone()).start();
        until_held(&broker, 1).await;
        let states = async |state| world.in_state(state).await.len();
        assert_eq!(states(RecordState::Pending).await, 1, "{preset}");
        assert_eq!(states(RecordState::Published).await, 0, "{preset}");
        broker.release();
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(states(RecordState::Published).await, 1, "{preset}");
        assert_eq!(world.sample_ids(&broker).len(), 1, "{preset}");
    }
}

/// A1-10: an endless error is cut at a character's boundary, counted once, and publishes nothing.
#[tokio::test]
async fn a_very_long_error_is_stored_bounded_and_as_valid_text() {
    for preset in ["packfinderz", "native"] {
        let world = World::new(preset).await;
        world.emit([world.sample("a")]).await;
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

        let waiting = world.in_state(RecordState::Waiting).await;
        let [row] = &waiting[..] else {
            panic!("{preset}: {waiting:?}")
        };
        assert_eq!(row.attempts, 1, "{preset}");
        let error = row.error.as_deref().unwrap();
        assert!(error.contains("é\u{fffd}\u{1f98a}é"), "{error}");
        assert!(error.len() <= ERROR_BYTES_MAX);
        assert_eq!(row.published_at, None);
    }
}

/// Waits until nobody holds a lock on the outbox, a part of it or one of its lanes.
async fn until_no_lock_is_left(world: &World) {
    let table = world.layout.table.to_string();
    world
        .until_count(
            "no lock is left behind",
            0,
            &format!(
                "SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() \
                 AND (relation = '{table}'::regclass OR relation IN (SELECT relid FROM pg_partition_tree('{table}')) \
                   OR locktype = 'advisory' AND classid::int8 = \
                     hashtext('postrider ' || '{table}'::regclass::oid::text)::int8 & 4294967295)"
            ),
        )
        .await;
}

/// A1-11: the relay dies in the middle of a batch; the next one publishes everything with no manual
/// step, and no lock is left behind. (The real binary is killed with SIGKILL in postrider-cli's tests.)
#[tokio::test]
async fn a_relay_that_dies_mid_batch_leaves_no_lock_and_nothing_unpublished() {
    for preset in ["packfinderz", "polyshop", "native"] {
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
    for preset in ["packfinderz", "polyshop", "gopipe", "native"] {
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
    for preset in ["packfinderz", "native"] {
        let world = World::new(preset).await;
        let events: Vec<Event> = (0..40).map(|n| world.sample(&format!("key-{n}"))).collect();
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
        let sent = world.sample_ids(&broker);
        assert_eq!(sent.len(), 50, "{preset}");
        let distinct: HashSet<&String> = sent.iter().collect();
        assert_eq!(distinct.len(), 40, "{preset}");
        for event in events {
            assert!(distinct.contains(&event.id.to_string()));
        }
    }
}

/// A broker that takes a message and loses the acknowledgement is met by the same event again, once
/// the relay knows that it is back.
#[tokio::test]
async fn a_lost_acknowledgement_repeats_the_event_and_loses_nothing() {
    for preset in ["packfinderz", "native"] {
        let world = World::new(preset).await;
        world
            .emit(["a", "b", "c"].map(|key| world.sample(key)))
            .await;
        let broker = MemoryBroker::default();
        broker.fail_next(1, Fault::AckLost, |_| true);
        let relay = world.relay(broker.clone()).start();
        eventually("every event has arrived", async || {
            let sent: HashSet<String> = world.sample_ids(&broker).into_iter().collect();
            if sent.len() == 3 { Ok(()) } else { Err(sent) }
        })
        .await;
        world.until_drained().await;
        // Nobody's fault, so no attempt was counted.
        assert_eq!(relay.metric("postrider_failed_total"), 0.0, "{preset}");
        relay.stop().await;
        assert_eq!(world.sample_ids(&broker).len(), 4, "{preset}");
        assert_eq!(world.in_state(RecordState::Published).await.len(), 3);
    }
}
