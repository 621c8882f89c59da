//! What an operator sees and what is tidied up: metrics against the table, cleanup, dead letters.

use std::time::Duration;

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Message, OutboxStore as _, Purge as _};
use postrider::relay::Cleanup;
use postrider_testkit::eventually;
use serde_json::json;
use sqlx::Row as _;
use uuid::Uuid;

use crate::packfinderz::{TOPIC, license_event};
use crate::world::{Running, World, holds, seen_sample, until_accepted, until_held};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Gives the rows names by their aggregate id's last digits, and a past.
async fn insert_past(world: &World, name: u32, created: &str, published: &str, attempts: u32) {
    let id = Uuid::now_v7();
    let envelope =
        json!({ "version": 1, "eventId": id, "occurredAt": "2026-01-01T00:00:00Z", "data": {} });
    world
        .execute(&format!(
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, \
               created_at, published_at, attempt_count, last_error) \
             VALUES ('{id}', 'order_created', 'vendor_order', lpad('{name}', 32, '0')::uuid, \
               '{envelope}', now() - interval '{created}', now() - {published}::interval, {attempts}, NULL)"
        ))
        .await;
}

async fn names(world: &World) -> Vec<String> {
    let names = "SELECT ltrim(right(aggregate_id::text, 6), '0') FROM outbox_events ORDER BY 1";
    world.column(names).await.into_iter().flatten().collect()
}

/// A0-13: cleanup deletes what was published longer ago than 30 days, in bounded batches, and neither an
/// old unpublished row nor a dead one.
#[tokio::test]
async fn cleanup_deletes_old_published_rows_only() {
    let world = World::new("packfinderz").await;
    for name in [1, 2, 3] {
        insert_past(&world, name, "31 days", "'31 days'", 0).await;
    }
    insert_past(&world, 4, "31 days", "'29 days'", 0).await;
    insert_past(&world, 5, "60 days", "NULL", 0).await;
    insert_past(&world, 6, "60 days", "NULL", 25).await;
    let keep = world.layout.defaults.keep().unwrap();
    assert_eq!(keep, 30 * DAY);
    let broker = MemoryBroker::default();
    broker.stop();
    let relay = world
        .relay(broker)
        .config(|config| {
            let every = Duration::from_millis(50);
            config.cleanup = Some(Cleanup {
                keep,
                every,
                batch: 2,
            });
        })
        .start();
    relay.until_metric("postrider_purged_total", 3.0).await;
    relay.stop().await;
    assert_eq!(names(&world).await, ["4", "5", "6"]);
    assert_eq!(world.store().purge(keep, 100).await.unwrap(), 0);
}

/// Of the other layouts, too, cleanup leaves what waits or is dead.
#[tokio::test]
async fn cleanup_leaves_waiting_and_dead_rows_of_every_layout() {
    for preset in ["polyshop", "talkie", "gopipe"] {
        let world = World::new(preset).await;
        world
            .emit(["sent", "refused"].map(|key| world.sample(key)))
            .await;
        let broker = MemoryBroker::default();
        broker.fail_next(1, Fault::Permanent, |message| holds(message, "refused"));
        let relay = world.relay(broker).start();
        world.until_drained().await;
        relay.stop().await;
        world.emit([world.sample("waiting")]).await;
        // All of this was two days ago.
        let table = world.layout.table.quoted();
        world
            .execute(&format!(
                "UPDATE {table} SET created_at = created_at - interval '2 days'"
            ))
            .await;
        if let Some(published_at) = world.layout.published_at() {
            let column = published_at.quoted();
            world
                .execute(&format!(
                    "UPDATE {table} SET {column} = {column} - interval '2 days'"
                ))
                .await;
        }
        assert_eq!(world.store().purge(DAY, 100).await.unwrap(), 1, "{preset}");
        let backlog = world.store().backlog().await.unwrap();
        assert_eq!((backlog.pending, backlog.dead), (1, 1), "{preset}");
    }
}

/// A0-14: backlog, oldest age and rows at the maximum, as exposed, equal the table's own truth.
#[tokio::test]
async fn exposed_figures_equal_the_table() {
    let world = World::new("packfinderz").await;
    for name in [1, 2, 3] {
        insert_past(&world, name, "90 minutes", "NULL", name).await;
    }
    insert_past(&world, 4, "3 hours", "NULL", 25).await;
    insert_past(&world, 5, "3 hours", "NULL", 26).await;
    insert_past(&world, 6, "3 hours", "'1 hour'", 0).await;
    let broker = MemoryBroker::default();
    broker.stop();
    let relay = world.relay(broker.clone()).start();
    relay.until_metric("postrider_backlog", 3.0).await;
    let truth = world
        .rows(
            "SELECT count(*) FILTER (WHERE published_at IS NULL AND attempt_count < 25), \
               count(*) FILTER (WHERE published_at IS NULL AND attempt_count >= 25), \
               extract(epoch FROM now() - min(created_at) FILTER (WHERE published_at IS NULL \
                 AND attempt_count < 25))::float8 FROM outbox_events",
        )
        .await;
    assert_eq!(
        relay.metric("postrider_backlog"),
        truth[0].get::<i64, _>(0) as f64
    );
    assert_eq!(
        relay.metric("postrider_dead_records"),
        truth[0].get::<i64, _>(1) as f64
    );
    let age: f64 = truth[0].get(2);
    let exposed = relay.metric("postrider_oldest_age_seconds");
    assert!((exposed - age).abs() < 30.0, "{exposed} is not {age}");

    // They follow the table.
    broker.start();
    world
        .execute("DELETE FROM outbox_events WHERE attempt_count >= 25")
        .await;
    relay.until_metric("postrider_backlog", 0.0).await;
    relay.until_metric("postrider_dead_records", 0.0).await;
    relay
        .until_metric("postrider_oldest_age_seconds", 0.0)
        .await;
    relay.stop().await;
    // The same figures need no relay (P7).
    let backlog = world.store().backlog().await.unwrap();
    assert_eq!(
        (backlog.pending, backlog.dead, backlog.oldest_age),
        (0, 0, None)
    );
}

fn counters(relay: &Running) -> [f64; 4] {
    ["published", "failed", "dead", "released"]
        .map(|name| relay.metric(&format!("postrider_{name}_total")))
}

/// Every fate is counted once.
#[tokio::test]
async fn counters_tell_what_became_of_every_record() {
    for preset in ["polyshop", "native"] {
        fates_are_counted_on(&World::new(preset).await).await;
    }
}

async fn fates_are_counted_on(world: &World) {
    let events = [("good", 1), ("retried", 1), ("bad", 1), ("bad", 2)];
    world
        .emit(events.map(|(key, number)| world.numbered_sample(key, number)))
        .await;
    let broker = MemoryBroker::default();
    let key = |key: &'static str| move |message: &Message| seen_sample(message).key == key;
    broker.fail_next(2, Fault::Transient, key("retried"));
    broker.fail_next(1, Fault::Permanent, key("bad"));
    let relay = world.relay(broker.clone()).start();
    until_accepted(&broker, world.sample_topic(), 2).await;
    relay.until_metric("postrider_published_total", 2.0).await;
    relay.until_metric("postrider_dead_total", 1.0).await;
    // Behind the dead one of its key.
    relay.until_metric("postrider_released_total", 1.0).await;
    relay.until_metric("postrider_dead_records", 1.0).await;
    assert_eq!(counters(&relay), [2.0, 2.0, 1.0, 1.0]);
    eventually("no lane is held", async || {
        match relay.metric("postrider_lanes_held") {
            0.0 => Ok(()),
            held => Err(held),
        }
    })
    .await;
    relay.stop().await;
}

/// The breaker's gauge and readiness go with the broker, there and back.
#[tokio::test]
async fn the_breaker_gauge_and_readiness_follow_the_broker() {
    let world = World::new("packfinderz").await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    relay.until_ready().await;
    assert_eq!(relay.metric("postrider_breaker_open"), 0.0);
    broker.stop();
    world.emit([license_event()]).await;
    relay.until_metric("postrider_breaker_open", 1.0).await;
    let report = relay.health.report();
    assert!(
        format!("{:?}", report.broker).contains("stopped"),
        "{report:?}"
    );
    broker.start();
    relay.until_metric("postrider_breaker_open", 0.0).await;
    relay.until_ready().await;
    until_accepted(&broker, TOPIC, 1).await;
    relay.stop().await;
}

/// A relay with nothing to send learns by its probe that the broker is gone, and that it is back.
#[tokio::test]
async fn readiness_fails_without_any_event_while_the_broker_is_down() {
    let world = World::new("packfinderz").await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    relay.until_ready().await;
    broker.stop();
    eventually("readiness fails", async || match relay.health.report() {
        report if report.is_ready() => Err(report),
        _ => Ok(()),
    })
    .await;
    broker.start();
    relay.until_ready().await;
    relay.stop().await;
}

/// The gauge of lanes counts what a claim holds, for as long as it holds it.
#[tokio::test]
async fn the_lanes_of_a_claim_are_counted_while_it_is_held() {
    for preset in ["polyshop", "native"] {
        let world = World::new(preset).await;
        world.emit([world.sample("a")]).await;
        let broker = MemoryBroker::default();
        broker.block();
        let plan = world
            .relay(broker.clone())
            .config(|config| config.claims = 1);
        let relay = plan.start();
        until_held(&broker, 1).await;
        assert_eq!(relay.metric("postrider_lanes_held"), 32.0, "{preset}");
        broker.release();
        relay.until_metric("postrider_lanes_held", 0.0).await;
        relay.stop().await;
    }
}
