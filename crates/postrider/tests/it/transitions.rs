//! Every change of status that Talkie's table sees, against the stated machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Actor, DeadLetters as _, Event, Message};
use sqlx::Row as _;

use crate::talkie::{event, has_key, note_changes};
use crate::witness::GatedStore;
use crate::world::World;

/// From, to. `-` is a row that was not there.
const ALLOWED: [(&str, &str); 8] = [
    ("-", "pending"),
    ("pending", "publishing"),
    ("publishing", "published"),
    // Failed; or released untouched, as in an outage, with nothing counted.
    ("publishing", "failed"),
    ("failed", "publishing"),
    // Settling is one statement, so that nobody sees an exhausted row as claimable.
    ("publishing", "dead_lettered"),
    // A lease that ended.
    ("publishing", "publishing"),
    // Resent by an operator.
    ("dead_lettered", "pending"),
];

/// One row through a retry, one through every attempt to its death, one dead at once, one plain.
async fn fail_in_every_way(world: &World, broker: &MemoryBroker) {
    world
        .emit(["plain", "retried", "exhausted", "refused"].map(event))
        .await;
    let key = |key: &'static str| move |message: &Message| has_key(message, key);
    broker.fail_next(1, Fault::Transient, key("retried"));
    broker.fail_next(2, Fault::Transient, key("exhausted"));
    broker.fail_next(1, Fault::Permanent, key("refused"));
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
}

async fn lose_a_lease(world: &mut World, broker: &MemoryBroker) {
    world.emit([event("leased")]).await;
    world.lease = Duration::from_secs(1);
    let (store, mut gate) = GatedStore::new(world.store());
    let relay = world.relay(broker.clone()).store(store).start();
    gate.wait_until_reached(1).await;
    relay.abort().await;
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    world.lease = Duration::from_secs(30);
}

async fn suffer_an_outage(world: &World, broker: &MemoryBroker) {
    broker.stop();
    world
        .emit((0..10).map(|n| event(&format!("outage-{n}"))))
        .await;
    let relay = world.relay(broker.clone()).start();
    relay.until_metric("postrider_breaker_open", 1.0).await;
    broker.start();
    world.until_drained().await;
    relay.stop().await;
}

async fn resend_the_dead(world: &World, broker: &MemoryBroker) {
    let store = world.store();
    let dead = world.dead().await;
    let ids: Vec<_> = dead.into_iter().map(|row| row.id).collect();
    assert_eq!(store.resend(&ids, &Actor("me".into())).await.unwrap(), 2);
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
}

/// A2-14: through retries, deaths, an ended lease, an outage and a resend, every change of status is one
/// of the stated ones, and each of those was seen.
#[tokio::test]
async fn every_status_change_is_a_stated_transition() {
    let mut world = World::new("talkie").await;
    world.max_attempts = 2;
    note_changes(&world).await;
    let broker = MemoryBroker::default();
    fail_in_every_way(&world, &broker).await;
    lose_a_lease(&mut world, &broker).await;
    suffer_an_outage(&world, &broker).await;
    resend_the_dead(&world, &broker).await;

    let changes = world
        .rows("SELECT DISTINCT coalesce(before, '-'), after FROM changes")
        .await;
    let seen: BTreeSet<(&str, &str)> = changes.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(seen, BTreeSet::from(ALLOWED));
    let unpublished = "SELECT count(*) FROM outbox WHERE status <> 'published'";
    assert_eq!(world.number(unpublished).await, 0);
}

/// A2-14: with order per key, too, a row's changes follow the machine while three relays work on few
/// keys and the broker fails at random.
#[tokio::test(flavor = "multi_thread")]
async fn the_machine_holds_under_several_relays_and_random_failures() {
    let world = World::with("talkie", |layout| {
        layout.ordering = postrider::core::Ordering::Key;
    })
    .await;
    note_changes(&world).await;
    let broker = MemoryBroker::default();
    let faults = Arc::new(AtomicI64::new(0));
    let count = Arc::clone(&faults);
    broker.fail_next(u32::MAX, Fault::Transient, move |_| {
        let fails = fastrand::u32(..10) == 0;
        count.fetch_add(i64::from(fails), Relaxed);
        fails
    });
    let start = || {
        world
            .relay(broker.clone())
            .config(|config| config.batch = 20)
            .start()
    };
    let relays = [start(), start(), start()];
    for n in 0..20 {
        let events: Vec<Event> = (0..10)
            .map(|key| event(&format!("key-{}", (key + n) % 7)))
            .collect();
        world.emit(events).await;
    }
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    let changes = world
        .rows("SELECT DISTINCT coalesce(before, '-'), after FROM changes")
        .await;
    for row in &changes {
        let change: (&str, &str) = (row.get(0), row.get(1));
        assert!(
            ALLOWED.contains(&change) && change != ("publishing", "publishing"),
            "{change:?}"
        );
    }
    // Each failure was counted once, and nothing else was.
    let counted = world.number("SELECT sum(retry_count) FROM outbox").await;
    assert_eq!(counted, faults.load(Relaxed));
    assert!(counted > 0, "nothing failed: the test tests nothing");
}
